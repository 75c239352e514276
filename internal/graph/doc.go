// Package graph draws a topology: exchanges, queues, who publishes and consumes,
// where dead letters and retries go, with findings in red. New makes a Drawing;
// Mermaid, DOT, SVG and HTML write it. The package is pure, and equal input gives
// equal output.
//
// Every name and text of a spec or broker is only ever a label: ids are numbers
// that the package gives out, and each writer escapes for its own language.
//
// The layout is the package's own, a layered one after Sugiyama. Graphviz
// compiled to WebAssembly was weighed (goccy/go-graphviz 0.2.10) and not taken:
// it compiles its module, or loads machine code from a folder that every user of
// the machine can write, at the start of every command, whether it draws or not.
package graph
