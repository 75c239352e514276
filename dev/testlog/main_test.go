package main

import (
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	for _, test := range []struct {
		name, in string
		want     result
		out      string
	}{
		{
			name: "passing tests say nothing, the package its closing line",
			in: `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Output":"PASS\n"}
{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}
{"Action":"pass","Package":"p"}
`,
			out: "ok  \tp\t0.1s\n",
		},
		{
			name: "a failure is shown",
			in: `{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:1: wrong\n"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t0.1s\n"}
{"Action":"fail","Package":"p"}
`,
			want: result{failed: true},
			out:  "--- p\n    a_test.go:1: wrong\nFAIL\tp\t0.1s\n",
		},
		{
			name: "what a panic cut off is shown",
			in: `{"Action":"output","Package":"p","Test":"TestA","Output":"panic: no\n"}
{"Action":"fail","Package":"p"}`,
			want: result{failed: true},
			out:  "panic: no\n",
		},
		{
			name: "skips count, unless the test takes long",
			in: `{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:1: no broker\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"--- SKIP: TestA (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestB","Output":"    a_test.go:2: set RABBITCTL_LONG=1\n"}
{"Action":"skip","Package":"p","Test":"TestB"}
{"Action":"skip","Package":"q"}
`,
			want: result{skipped: 1},
			out:  "skipped 1: no broker\n  p: TestA\nskipped 1: set RABBITCTL_LONG=1\n  p: TestB\n",
		},
		{
			name: "a package that does not build",
			in: `{"ImportPath":"p","Action":"build-output","Output":"./p.go:1: syntax error\n"}
{"ImportPath":"p","Action":"build-fail"}
go: something else
`,
			want: result{failed: true},
			out:  "./p.go:1: syntax error\ngo: something else\n",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out strings.Builder
			got, err := read(strings.NewReader(test.in), &out)
			if err != nil || got != test.want || out.String() != test.out {
				t.Errorf("got %+v, %v and\n%s\nwant %+v and\n%s", got, err, out.String(), test.want, test.out)
			}
		})
	}
}
