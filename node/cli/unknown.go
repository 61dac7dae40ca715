package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
)

// Unknown returns a text for each variable of env that begins with prefix and belongs to no flag and to none
// of others: a misspelt one, or one of another version of this program. A name of others that ends with "_"
// stands for all that begin with it. The variables that Kubernetes sets for services are left out, and so are
// values, which may be secret.
func (n Names) Unknown(env []string, prefix string, others ...string) (texts []string) {
	var known, words []string // words without the prefix, which makes all names alike
	for _, names := range n {
		for _, name := range names {
			known = append(known, name)
			if word, ok := strings.CutPrefix(name, prefix); ok {
				words = append(words, word)
			}
		}
	}
	slices.Sort(words)
	for _, e := range env {
		name, _, _ := strings.Cut(e, "=")
		if !strings.HasPrefix(name, prefix) || slices.Contains(known, name) || service(name) || slices.ContainsFunc(others, func(o string) bool {
			return name == o || strings.HasSuffix(o, "_") && strings.HasPrefix(name, o)
		}) {
			continue
		}
		text := name
		if near := distros.Nearest(strings.TrimPrefix(name, prefix), words); len(near) > 0 {
			text = fmt.Sprintf("%s (did you mean %s%s?)", name, prefix, near[0])
		}
		texts = append(texts, text)
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}

// service reports whether Kubernetes, or Docker before it, sets such a variable for a service.
func service(name string) bool {
	return strings.Contains(name, "_SERVICE_") || strings.HasSuffix(name, "_PORT") || strings.Contains(name, "_PORT_")
}
