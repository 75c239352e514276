// Command docgen writes docs/settings.md from the settings table. It is run by
// `go generate ./...`, with internal/catalog as the current directory.
package main

import (
	"fmt"
	"os"
)

const page = "../../docs/settings.md"

func main() {
	if err := os.WriteFile(page, settings(), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, "docgen:", err)
		os.Exit(1)
	}
}
