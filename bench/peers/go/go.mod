module peers

go 1.25.0

require github.com/moov-io/iso8583 v0.26.1

require (
	github.com/yerden/go-util v1.1.4 // indirect
	golang.org/x/text v0.41.0 // indirect
)
