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

// programs are the first words of lines that are commands. Other lines of code are values, files and output.
var programs = map[string]bool{
	"driver-build": true, "bin/driver-build": true, "make": true, "kubectl": true, "helm": true, "sudo": true, "mkdir": true, "python3": true,
	"entry()": true, "tar": true, "cosign": true, "openssl": true, "mokutil": true, "chroot": true, "curl": true, "git": true, "go": true, "docker": true,
	"install": true, "export": true, "ctr": true, "skopeo": true, "apt-get": true, "dnf": true, "echo": true, "cat": true, "cd": true, "source": true, "for": true,
}

var (
	inline  = regexp.MustCompile("`((?:kubectl|helm|mokutil) [^` ]+ [^`]+)`") // two words alone are a name, no call
	comment = regexp.MustCompile(`\s+# .*$`)
	listed  = regexp.MustCompile(`^(?:[-*]|\d+\.) `)
)

// Commands returns the commands of a page in their order: lines of blocks of code, and calls of kubectl, helm
// and mokutil between backquotes. A backslash at the end of a line continues it. A line of code that begins
// with no program is values, a file or output.
func Commands(page string) (all []Command) {
	var in reader
	for line := range strings.Lines(page) {
		in.number++
		line = strings.TrimRight(line, "\r\n")
		code, isCode := in.code(line)
		switch {
		case in.continued:
			last := &all[len(all)-1]
			last.Text += " " + strings.TrimSpace(code)
			in.continued = false
		case isCode:
			code = strings.TrimPrefix(code, "$ ")
			first, _, _ := strings.Cut(code, " ")
			if !programs[first] {
				continue
			}
			all = append(all, Command{in.number, code})
		default:
			for _, found := range inline.FindAllStringSubmatch(line, -1) {
				all = append(all, Command{in.number, strings.ReplaceAll(found[1], `\|`, "|")})
			}
			continue
		}
		last := &all[len(all)-1]
		last.Text, in.continued = strings.CutSuffix(strings.TrimSpace(last.Text), `\`)
		last.Text = strings.TrimSpace(comment.ReplaceAllString(last.Text, ""))
	}
	return all
}

// reader knows where in a page it is.
type reader struct {
	number    int
	fence     bool
	continued bool // the last command goes on in this line
	depth     int  // columns by which the text of the list is indented
}

// code returns a line of code without its indentation.
func (r *reader) code(line string) (string, bool) {
	text := strings.TrimLeft(line, " ")
	indent := len(line) - len(text)
	if strings.HasPrefix(text, "```") {
		r.fence = !r.fence
		return "", false
	}
	if r.fence {
		return text, true
	}
	if text != "" && indent < r.depth {
		r.depth = 0
	}
	if mark := listed.FindString(text); mark != "" && indent < r.depth+4 {
		r.depth = indent + len(mark)
		return "", false
	}
	return text, text != "" && indent >= r.depth+4
}

// File returns the block of code of a page that begins with a line: a file that the reader writes. It is ""
// if there is none.
func File(page, first string) string {
	_, after, found := strings.Cut(page, "\n    "+first+"\n")
	if !found {
		return ""
	}
	text := []string{first + "\n"}
	for line := range strings.Lines(after) {
		code, indented := strings.CutPrefix(line, "    ")
		if !indented {
			break
		}
		text = append(text, code)
	}
	return strings.Join(text, "")
}
