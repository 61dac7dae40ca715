package apt

import (
	"fmt"
	"strings"

	"github.com/driver-container/driver-container/distros"
)

// parseOneLine reads the format of sources.list(5): deb [option=value ...] URI suite [component
// ...].
func parseOneLine(name string, data []byte) ([]Source, error) {
	var out []Source
	n := 0
	for line := range strings.Lines(string(data)) {
		n++
		line, _, _ = strings.Cut(line, "#")
		kind, rest, _ := strings.Cut(strings.TrimSpace(strings.ReplaceAll(line, "\t", " ")), " ")
		if kind == "" || kind == "deb-src" {
			continue
		}
		origin := fmt.Sprintf("%s:%d", name, n)
		if kind != "deb" {
			return nil, distros.BadSources(
				"%s: a line begins with %.40q, want deb or deb-src",
				origin,
				kind,
			)
		}
		s, err := parseEntry(origin, strings.TrimSpace(rest))
		if err != nil {
			return nil, err
		}
		if len(s.URIs) > 0 {
			out = append(out, s)
		}
	}
	return out, nil
}

func parseEntry(origin, rest string) (Source, error) {
	s := Source{Origin: origin}
	if strings.HasPrefix(rest, "[") {
		options, after, ok := strings.Cut(rest[1:], "]")
		if !ok {
			return s, distros.BadSources("%s: options without a closing bracket", origin)
		}
		for o := range strings.FieldsSeq(options) {
			key, value, ok := strings.Cut(o, "=")
			if !ok {
				return s, distros.BadSources("%s: option %.60q, want name=value", origin, o)
			}
			if err := s.option(strings.ToLower(key), strings.Split(value, ",")); err != nil {
				return s, err
			}
		}
		rest = after
	}
	if strings.HasPrefix(strings.TrimSpace(rest), "cdrom:") {
		return s, nil // its name has brackets and blanks, and nothing can be read from it
	}
	if strings.ContainsAny(rest, `"[]`) {
		return s, distros.BadSources(
			"%s: quotes and brackets in URI or suite are not supported",
			origin,
		)
	}
	words := strings.Fields(rest)
	if len(words) < 2 {
		return s, distros.BadSources("%s: want deb URI suite [component ...]", origin)
	}
	s.URIs = words[:1]
	s.Suites = words[1:2]
	s.Components = words[2:]
	return s, s.check()
}

// option applies one setting. key is the name in the one-line format in lower case; the deb822
// fields are mapped to it. Settings without effect here (languages, targets, pdiffs) are ignored,
// as apt ignores unknown ones.
func (s *Source) option(key string, values []string) error {
	flag := func(into *bool, invert bool) error {
		v, ok := truth(strings.Join(values, ","))
		if !ok {
			return distros.BadSources(
				"%s: %s is %.40q, want yes or no",
				s.Origin,
				key,
				strings.Join(values, ","),
			)
		}
		*into = v != invert
		return nil
	}
	switch key {
	case "arch":
		s.Architectures = append(s.Architectures, values...)
	case "arch+": // without arch= it adds to all
		if len(s.Architectures) > 0 {
			s.Architectures = append(s.Architectures, values...)
		}
	case "arch-":
		return distros.BadSources(
			"%s: arch-= is not supported; name the architectures with arch=",
			s.Origin,
		)
	case "signed-by":
		for _, v := range values {
			if v != "" {
				s.SignedBy = append(s.SignedBy, v)
			}
		}
	case "trusted":
		return flag(&s.Trusted, false)
	case "check-valid-until":
		return flag(&s.NoValidUntil, true)
	case "by-hash":
		if len(values) == 1 && strings.EqualFold(values[0], "force") {
			return nil
		}
		return flag(&s.NoByHash, true)
	}
	return nil
}
