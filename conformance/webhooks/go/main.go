// Says whether Go's library of Standard Webhooks verifies the delivery on stdin: {secret, headers, body}.
package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

func main() {
	var delivery struct {
		Secret  string
		Headers map[string]string
		Body    string
	}
	if err := json.NewDecoder(os.Stdin).Decode(&delivery); err != nil {
		panic(err)
	}
	webhook, err := standardwebhooks.NewWebhook(delivery.Secret)
	if err != nil {
		panic(err)
	}
	headers := http.Header{}
	for name, value := range delivery.Headers {
		headers.Set(name, value)
	}
	if webhook.Verify([]byte(delivery.Body), headers) == nil {
		fmt.Println("yes")
	} else {
		fmt.Println("no")
	}
}
