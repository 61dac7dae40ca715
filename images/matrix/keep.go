package matrix

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/template"

	"go.yaml.in/yaml/v4"
)

// Keep returns a matrix with some of its systems and drivers, and the comments of what stays. A row
// of exclude about drivers that all go is a mistake.
func Keep(name string, text []byte, systems, drivers []string) ([]byte, error) {
	if _, err := Parse(name, text); err != nil {
		return nil, err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	keep := func(list, id string, names []string) {
		rows := child(doc.Content[0], list)
		isOther := func(row *yaml.Node) bool { return !slices.Contains(names, child(row, id).Value) }
		rows.Content = slices.DeleteFunc(rows.Content, isOther)
	}
	keep("systems", "id", systems)
	keep("drivers", "version", drivers)
	kept, err := yaml.Dump(&doc, yaml.WithIndent(2), yaml.WithCompactSeqIndent(false), yaml.WithLineWidth(120))
	if err != nil {
		return nil, err
	}
	_, err = Parse(name, kept)
	return kept, err
}

// stanza is the entry of a driver. A map has its rows in the order of its keys.
var stanza = template.Must(template.New("").Parse(`
{{- range .Comment}}  # {{.}}
{{end}}  - version: {{.Version}}
    archives:
{{- range $arch, $archive := .Archives}}
      {{$arch}}:
        url: {{.URL}}
        sha256: {{.SHA256}}
{{- if .Size}}
        size: {{.Size}}
{{- end}}
{{- end}}
{{- if .Components}}
    components:
{{- range $name, $archives := .Components}}
      {{$name}}:
{{- range $arch, $archive := .}}
        {{$arch}}:
          url: {{.URL}}
          sha256: {{.SHA256}}
{{- if .Size}}
          size: {{.Size}}
{{- end}}
{{- end}}
{{- end}}
{{- end}}
{{- with .CUDA}}
    cuda: {{.}}
{{- end}}
{{- if not .Kernel.IsZero}}
    kernel:
{{- end}}
{{- with .Kernel.Min}}
      min: {{printf "%q" .}}
{{- end}}
{{- with .Kernel.Max}}
      max: {{printf "%q" .}}
{{- end}}
{{- with .Kernel.Reason}}
      reason: {{printf "%q" .}}
{{- end}}
`))

// Stanza returns the entry of a driver as a matrix has it in drivers, below a comment. The error is
// that of Parse about the entry.
func Stanza(d Driver, comment []string) (string, error) {
	var b strings.Builder
	err := stanza.Execute(&b, struct {
		Driver
		Comment []string
	}{d, comment})
	if err != nil {
		return "", err
	}
	const system = "systems: [{id: debian12, base: 'debian:12', archs: [amd64], kernels: [6.1]}]\ndrivers:\n"
	_, err = Parse("the entry", []byte(system+b.String()))
	if wrong, ok := errors.AsType[Errors](err); ok {
		return "", fmt.Errorf("driver %s: %s", d.Version, wrong[0].Message)
	}
	return b.String(), err
}
