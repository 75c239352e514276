package command_test

import (
	"context"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rabbitctl/rabbitctl/internal/command"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"rabbitctl": func() { os.Exit(command.Run(context.Background(), os.Args[1:], command.OSStreams())) },
	})
}

// TestScripts runs the command lines that need no broker. Run with
// UPDATE_SCRIPTS=1 to refresh expected output.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "../../testdata/script",
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			root, err := os.Getwd()
			if err != nil {
				return err
			}
			e.Setenv("REPO", root+"/../..")
			return nil
		},
	})
}
