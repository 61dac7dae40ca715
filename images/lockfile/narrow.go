package lockfile

import (
	"bytes"
	"encoding/json"
	"strings"
)

// narrow removes the sections that want does not name: a lock of a whole matrix has megabytes, which a YAML
// reader needs seconds for, and a build needs a section or two. A line that does not look like the beginning
// of a section is kept for the reader to judge.
func narrow(data []byte, want func(name string) bool) []byte {
	out := make([]byte, 0, len(data)/8)
	below, keep := false, true
	for line := range bytes.Lines(data) {
		switch {
		case len(line) > 0 && line[0] != ' ' && line[0] != '\n' && line[0] != '#':
			below, keep = strings.TrimRight(string(line), "\n") == "targets:", true
		case below && len(line) > 3 && line[0] == ' ' && line[1] == ' ' && line[2] != ' ' && line[2] != '#':
			name, ok := sectionName(string(line))
			keep = !ok || want(name)
		}
		if keep {
			out = append(out, line...)
		}
	}
	if bytes.HasSuffix(out, []byte("\ntargets:\n")) {
		return append(out[:len(out)-1], " {}\n"...) // none is wanted
	}
	return out
}

// sectionName reads `  "535.261.03-debian12/amd64":`.
func sectionName(line string) (string, bool) {
	text, ok := strings.CutSuffix(strings.TrimSpace(line), ":")
	if !ok {
		return "", false
	}
	if !strings.HasPrefix(text, `"`) {
		return text, plain.MatchString(text)
	}
	var name string
	err := json.Unmarshal([]byte(text), &name)
	return name, err == nil
}
