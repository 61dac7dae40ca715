package apt

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/dpkg"
)

// parseDeb822 reads the paragraphs of a .sources file, the newer format of sources.list(5).
func parseDeb822(name string, data []byte) ([]Source, error) {
	var out []Source
	n := 0
	for p, err := range dpkg.ReadParagraphs(bytes.NewReader(data)) {
		if err != nil {
			return nil, distros.BadSources("%s: %w", name, err)
		}
		n++
		s := Source{Origin: fmt.Sprintf("%s (entry %d)", name, n)}
		if on, ok := truth(p.Get("Enabled")); ok && !on {
			continue
		}
		types := strings.Fields(p.Get("Types"))
		if len(types) == 0 {
			return nil, distros.BadSources("%s: no Types field, want Types: deb", s.Origin)
		}
		if !slices.Contains(types, "deb") {
			continue
		}
		if err := s.fromParagraph(p); err != nil {
			return nil, err
		}
		if len(s.URIs) > 0 {
			out = append(out, s)
		}
	}
	return out, nil
}

func (s *Source) fromParagraph(p dpkg.Paragraph) error {
	s.URIs = strings.Fields(p.Get("URIs"))
	s.Suites = strings.Fields(p.Get("Suites"))
	s.Components = strings.Fields(p.Get("Components"))
	if len(s.URIs) == 0 {
		return distros.BadSources("%s: no URIs field", s.Origin)
	}
	for _, f := range []struct{ field, option string }{
		{"Architectures", "arch"},
		{"Architectures-Add", "arch+"},
		{"Architectures-Remove", "arch-"},
		{"Trusted", "trusted"},
		{"Check-Valid-Until", "check-valid-until"},
		{"By-Hash", "by-hash"},
	} {
		if v, ok := p.Lookup(f.field); ok && strings.TrimSpace(v) != "" {
			if err := s.option(f.option, strings.Fields(v)); err != nil {
				return err
			}
		}
	}
	if v := p.Get("Signed-By"); strings.Contains(v, "-----BEGIN") {
		s.Key = unfold(v)
	} else if err := s.option("signed-by", strings.FieldsFunc(v, func(r rune) bool { return strings.ContainsRune(", \t\n", r) })); err != nil {
		return err
	}
	return s.check()
}

// unfold returns the original lines of a multi-line value: without one leading blank each, and
// empty for a lone dot.
func unfold(value string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.TrimPrefix(value, "\n")) {
		line = strings.TrimSpace(line)
		if line == "." {
			line = ""
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}
