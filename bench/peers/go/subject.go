package main

import (
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/moov-io/iso8583"
	"github.com/moov-io/iso8583/encoding"
	"github.com/moov-io/iso8583/field"
	"github.com/moov-io/iso8583/prefix"
)

// A message as bench/peers/run writes it down: its format, its values, its bytes, and what an
// update sets.
type subject struct {
	name    string
	layout  string
	packed  []byte
	rows    map[int]row
	values  map[int][]byte
	updates [][]setting
}

// A row of a packager's table, named as jPOS names its classes.
type row struct {
	class  string
	length int
}

type setting struct {
	number int
	value  string
}

func readSubject(path string) *subject {
	text, err := os.ReadFile(path)
	check(err)
	subject := &subject{rows: map[int]row{}, values: map[int][]byte{}}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		switch words[0] {
		case "name":
			subject.name = words[1]
		case "layout":
			subject.layout = words[1]
		case "packed":
			subject.packed = unhex(words[1])
		case "row":
			subject.rows[number(words[1])] = row{words[2], number(words[3])}
		case "text", "bytes":
			subject.values[number(words[1])] = unhex(words[2])
		case "update":
			var update []setting
			for _, word := range words[1:] {
				name, value, _ := strings.Cut(word, "=")
				update = append(update, setting{number(name), value})
			}
			subject.updates = append(subject.updates, update)
		default:
			check(fmt.Errorf("cannot read %s", line))
		}
	}
	return subject
}

func (subject *subject) filled(spec *iso8583.MessageSpec, update []setting) *iso8583.Message {
	message := iso8583.NewMessage(spec)
	for number, value := range subject.values {
		check(message.BinaryField(number, value))
	}
	for _, setting := range update {
		check(message.Field(setting.number, setting.value))
	}
	return message
}

// The specification that the rows stand for.
func (subject *subject) spec() *iso8583.MessageSpec {
	fields := map[int]field.Field{}
	for number, row := range subject.rows {
		fields[number] = row.field(number, subject.layout)
	}
	return &iso8583.MessageSpec{Name: subject.layout, Fields: fields}
}

func (row row) field(number int, layout string) field.Field {
	spec := &field.Spec{Length: row.length, Description: row.class, Enc: encoding.ASCII, Pref: prefix.ASCII.Fixed}
	lengths := prefix.ASCII
	if layout == "iso87binary" {
		lengths = prefix.BCD
	}
	switch {
	case strings.Contains(row.class, "_LLL"):
		spec.Pref = lengths.LLL
	case strings.Contains(row.class, "_LL"):
		spec.Pref = lengths.LL
	}
	switch row.class {
	case "IFA_BITMAP":
		spec.Length = 8
		spec.Enc, spec.Pref = encoding.BytesToASCIIHex, prefix.Hex.Fixed
		return field.NewBitmap(spec)
	case "IFB_BITMAP":
		spec.Length = 8
		spec.Enc, spec.Pref = encoding.Binary, prefix.Binary.Fixed
		return field.NewBitmap(spec)
	case "IFA_BINARY":
		spec.Enc = encoding.BytesToASCIIHex
		return field.NewBinary(spec)
	case "IFB_BINARY", "IFB_LLLBINARY":
		spec.Enc = encoding.Binary
		return field.NewBinary(spec)
	case "IFB_NUMERIC":
		spec.Enc = encoding.BCD
	case "IFB_LLNUM":
		spec.Enc = encoding.LBCD
		if number == 35 {
			spec.Enc = track{}
		}
	case "IFB_AMOUNT":
		spec.Enc = amount{}
	}
	return field.NewString(spec)
}

// A sign in ASCII, then digits in BCD.
type amount struct{}

func (amount) Encode(value []byte) ([]byte, error) {
	digits, err := encoding.BCD.Encode(value[1:])
	return append([]byte{value[0]}, digits...), err
}

func (amount) Decode(source []byte, length int) ([]byte, int, error) {
	if len(source) == 0 {
		return nil, 0, fmt.Errorf("no sign")
	}
	digits, read, err := encoding.BCD.Decode(source[1:], length-1)
	return append([]byte{source[0]}, digits...), read + 1, err
}

// Track 2 in BCD, where the separator is the digit D.
type track struct{}

func (track) Encode(value []byte) ([]byte, error) {
	const digits = "0123456789"
	encoded := make([]byte, (len(value)+1)/2)
	for at, character := range value {
		digit := strings.IndexByte(digits, character)
		if character == '=' {
			digit = 0xD
		}
		if digit < 0 {
			return nil, fmt.Errorf("no digit at %d", at)
		}
		encoded[at/2] |= byte(digit) << (4 * (1 - at%2))
	}
	return encoded, nil
}

func (track) Decode(source []byte, length int) ([]byte, int, error) {
	read := (length + 1) / 2
	if len(source) < read {
		return nil, 0, fmt.Errorf("%d bytes for %d", len(source), read)
	}
	value := make([]byte, length)
	for at := range value {
		digit := source[at/2] >> (4 * (1 - at%2)) & 0xF
		switch {
		case digit < 10:
			value[at] = '0' + digit
		case digit == 0xD:
			value[at] = '='
		default:
			return nil, 0, fmt.Errorf("no digit at %d", at)
		}
	}
	return value, read, nil
}

func unhex(text string) []byte {
	bytes, err := hex.DecodeString(text)
	check(err)
	return bytes
}

func number(text string) int {
	number, err := strconv.Atoi(text)
	check(err)
	return number
}
