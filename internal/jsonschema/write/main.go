// Command write writes the JSON Schema of specs into a file. It is run by
// go generate.
package main

import (
	"fmt"
	"os"

	"github.com/rabbitctl/rabbitctl/internal/jsonschema"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "write: name one file")
		os.Exit(1)
	}
	if err := os.WriteFile(os.Args[1], jsonschema.Spec(), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, "write:", err)
		os.Exit(1)
	}
}
