// Measures moov-io/iso8583 on the messages that bench/peers/run hands over:
// `go-peer SECONDS ROUNDS MESSAGE_FILE...` prints a JSON line per message.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/moov-io/iso8583"
)

// Operations between two looks at the clock.
const batch = 256

// Where results go, so that none is left out.
var sink any

type clock struct {
	seconds float64
	rounds  int
}

type result struct {
	Peer    string             `json:"peer"`
	Version string             `json:"version"`
	Message string             `json:"message"`
	Proof   string             `json:"proof,omitempty"`
	Cannot  string             `json:"cannot,omitempty"`
	Rates   map[string]float64 `json:"rates,omitempty"`
}

func main() {
	seconds, err := strconv.ParseFloat(os.Args[1], 64)
	check(err)
	rounds, err := strconv.Atoi(os.Args[2])
	check(err)
	for _, path := range os.Args[3:] {
		subject := readSubject(path)
		line := result{Peer: "moov-io/iso8583", Version: version(), Message: subject.name}
		spec := subject.spec()
		if err := prove(subject, spec); err != nil {
			line.Cannot = err.Error()
		} else {
			line.Proof = "same bytes"
			line.Rates = measure(subject, spec, clock{seconds, rounds})
		}
		check(json.NewEncoder(os.Stdout).Encode(line))
	}
}

func prove(subject *subject, spec *iso8583.MessageSpec) error {
	packed, err := subject.filled(spec, nil).Pack()
	if err != nil {
		return err
	}
	if !bytes.Equal(packed, subject.packed) {
		return fmt.Errorf("other bytes were packed: %X", packed)
	}
	message := iso8583.NewMessage(spec)
	if err := message.Unpack(subject.packed); err != nil {
		return err
	}
	for number, value := range subject.values {
		found, err := message.GetBytes(number)
		if err != nil {
			return err
		}
		if !bytes.Equal(found, value) {
			return fmt.Errorf("field %d was read otherwise", number)
		}
	}
	return nil
}

func measure(subject *subject, spec *iso8583.MessageSpec, clock clock) map[string]float64 {
	many := len(subject.updates)
	messages := make([]*iso8583.Message, many)
	packed := make([][]byte, many)
	for at, update := range subject.updates {
		messages[at] = subject.filled(spec, update)
		packed[at] = pack(messages[at])
	}
	updated := subject.filled(spec, nil)
	return map[string]float64{
		"fill_pack":   clock.rate(func(turn int) any { return pack(subject.filled(spec, subject.updates[turn%many])) }),
		"pack":        clock.rate(func(turn int) any { return pack(messages[turn%many]) }),
		"unpack":      clock.rate(func(turn int) any { return unpack(spec, packed[turn%many]) }),
		"pack_unpack": clock.rate(func(turn int) any { return unpack(spec, pack(messages[turn%many])) }),
		"update_pack_unpack": clock.rate(func(turn int) any {
			for _, setting := range subject.updates[turn%many] {
				check(updated.Field(setting.number, setting.value))
			}
			return unpack(spec, pack(updated))
		}),
	}
}

func pack(message *iso8583.Message) []byte {
	packed, err := message.Pack()
	check(err)
	return packed
}

func unpack(spec *iso8583.MessageSpec, bytes []byte) *iso8583.Message {
	message := iso8583.NewMessage(spec)
	check(message.Unpack(bytes))
	return message
}

// The median of some rounds, after one that warms up.
func (clock clock) rate(operation func(turn int) any) float64 {
	clock.round(operation)
	rates := make([]float64, clock.rounds)
	for at := range rates {
		rates[at] = clock.round(operation)
	}
	slices.Sort(rates)
	return rates[len(rates)/2]
}

func (clock clock) round(operation func(turn int) any) float64 {
	started, before, turn := time.Now(), cpuSeconds(), 0
	for time.Since(started).Seconds() < clock.seconds {
		for range batch {
			sink = operation(turn)
			turn++
		}
	}
	return float64(turn) / (cpuSeconds() - before)
}

// What this process has used so far, its collector's work included.
func cpuSeconds() float64 {
	var usage syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}

func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, module := range info.Deps {
		if module.Path == "github.com/moov-io/iso8583" {
			return module.Version
		}
	}
	return "unknown"
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
