package lint

import (
	"regexp"
	"strings"
)

// Command is a command of a page.
type Command struct {
	Line int // of the page
	Text string
}

// programs are the first words of lines that are commands. Other lines of code are values, files
// and output.
var programs = map[string]bool{
	"driver-build": true, "bin/driver-build": true, "make": true, "kubectl": true, "helm": true, "sudo": true, "mkdir": true, "python3": true,
	"entry()": true, "tar": true, "cosign": true, "openssl": true, "mokutil": true, "chroot": true, "curl": true, "git": true, "go": true, "docker": true,
	"install": true, "export": true, "ctr": true, "skopeo": true, "apt-get": true, "dnf": true, "echo": true, "cat": true, "cd": true, "source": true, "for": true,
}

// inline matches calls between backquotes; two words alone are a name, no call.
var inline = regexp.MustCompile(`^(?:kubectl|helm|mokutil) \S+ .+$`)

// Commands returns the commands of a page in their order: lines of blocks of code, and calls of
// kubectl, helm and mokutil between backquotes. A line of code that begins with no program is
// values, a file or output.
func Commands(text string) (all []Command) {
	for _, c := range parse(text).code {
		code := strings.TrimPrefix(c.text, "$ ")
		first, _, _ := strings.Cut(code, " ")
		switch {
		case c.span && inline.MatchString(c.text):
			all = append(all, Command{c.line, strings.ReplaceAll(c.text, `\|`, "|")})
		case !c.span && programs[first]:
			all = append(all, Command{c.line, code})
		}
	}
	return all
}
