package documents

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/dpkg"
)

// copyrightFile is Debian's record of a package's licences.
func copyrightFile(name string) string { return path.Join("usr/share/doc", name, "copyright") }

// spdxNames are names in SPDX's list of licences that distributions use too, each after the other
// spellings of Debian and of older rpm packages. Those of GNU are in gnuNames.
var spdxNames = [][]string{
	{"0BSD"},
	{"ASL 2.0", "Apache-2.0"},
	{"BSD-1-Clause"},
	{"BSD-2-clause", "BSD-2-Clause"},
	{"BSD-3-clause", "BSD-3-Clause"},
	{"BSD-4-clause", "BSD-4-Clause"},
	{"Boost", "BSL-1.0"},
	{"CC0", "CC0-1.0"},
	{"CC-BY-4.0"},
	{"ISC"},
	{"Expat", "MIT"},
	{"MIT-0"},
	{"MPLv1.1", "MPL-1.1"},
	{"MPLv2.0", "MPL-2.0"},
	{"OpenSSL"},
	{"PSF-2", "PSF-2.0"},
	{"Unlicense"},
	{"W3C"},
	{"X11"},
	{"zlib", "Zlib"},
	{"bzip2-1.0.6"}, {"curl"},
}

// gnuNames matches GNU's licences as Debian, older rpm packages and SPDX write them: GPL-2+,
// GPLv2+, GPL-2.0-or-later.
var gnuNames = regexp.MustCompile(
	`^(GPL|LGPL|AGPL|GFDL)[-v]([1-3])(\.[0-3])?(\+|-only|-or-later)?$`,
)

var gnuVersions = strings.Fields(
	"GPL-1.0 GPL-2.0 GPL-3.0 LGPL-2.0 LGPL-2.1 LGPL-3.0 AGPL-1.0 AGPL-3.0 GFDL-1.1 GFDL-1.2 GFDL-1.3",
)

// spdxName is the name in SPDX's list of a licence, "" for one that is not known to be there.
func spdxName(name string) string {
	m := gnuNames.FindStringSubmatch(name)
	if m == nil {
		at := slices.IndexFunc(
			spdxNames,
			func(names []string) bool { return slices.Contains(names, name) },
		)
		if at < 0 {
			return ""
		}
		return spdxNames[at][len(spdxNames[at])-1]
	}
	base := m[1] + "-" + m[2] + m[3]
	end := "-only"
	if m[3] == "" {
		base += ".0"
	}
	if m[4] == "+" || m[4] == "-or-later" {
		end = "-or-later"
	}
	if !slices.Contains(gnuVersions, base) {
		return ""
	}
	return base + end
}

// debianLicences reads a copyright file that machines can read: the names that its files have, and
// the texts behind names. Of a file in another format nothing is known.
func debianLicences(text string) (names []string, texts map[string]string) {
	texts = map[string]string{}
	first := true
	for p, err := range dpkg.ReadParagraphs(strings.NewReader(text)) {
		if err != nil || first && p.Get("Format") == "" {
			return nil, nil
		}
		name, body, _ := strings.Cut(p.Get("License"), "\n")
		name = strings.TrimSpace(name)
		if name != "" && (first || p.Get("Files") != "") && !slices.Contains(names, name) {
			names = append(names, name)
		}
		if body != "" {
			texts[name] = body
		}
		first = false
	}
	slices.Sort(names)
	return names, texts
}

// packageLicence is the expression of SPDX for what a package declares, "" where it declares
// nothing.
func (g *graph) packageLicence(names []string, texts map[string]string) string {
	var all []string
	for _, n := range names {
		e := g.expression(n, texts)
		if len(names) > 1 && strings.Contains(e, " OR ") {
			e = "(" + e + ")"
		}
		if !slices.Contains(all, e) {
			all = append(all, e)
		}
	}
	return strings.Join(all, " AND ")
}

// maxWords bounds an expression in bytes. Real ones have some hundred.
const maxWords = 16 << 10

var comma = regexp.MustCompile(`(?i),\s+(and|or)\s+`)

var operators = regexp.MustCompile(`(?i)\s+(and|or)\s+|[()]|$`)

// expression translates the words of a distribution. In Debian's, a comma binds less than the words
// behind it. What is no expression is one licence as a whole, with its words as the name.
func (g *graph) expression(words string, texts map[string]string) string {
	if len(words) > maxWords {
		return g.ownLicence(words, texts)
	}
	if at := comma.FindStringSubmatchIndex(words); at != nil {
		left := g.expression(words[:at[0]], texts)
		right := g.expression(words[at[1]:], texts)
		return "(" + left + ") " + strings.ToUpper(words[at[2]:at[3]]) + " (" + right + ")"
	}
	out := ""
	from := 0
	depth := 0
	value := false // value: a licence or ")" came last
	for _, at := range operators.FindAllStringIndex(words, -1) {
		name := strings.TrimSpace(words[from:at[0]])
		operator := strings.ToUpper(strings.TrimSpace(words[at[0]:at[1]]))
		from = at[1]
		if name != "" {
			if value {
				return g.ownLicence(words, texts)
			}
			id := spdxName(name)
			if id == "" {
				id = g.ownLicence(name, texts)
			}
			out = out + id
			value = true
		}
		if (operator == "(") == value { // "(" begins a value, all others follow one
			return g.ownLicence(words, texts)
		}
		switch operator {
		case "(":
			out = out + "("
			depth = depth + 1
		case ")":
			out = out + ")"
			depth = depth - 1
		case "AND", "OR":
			out = out + " " + operator + " "
			value = false
		}
		if depth < 0 {
			break
		}
	}
	if depth != 0 {
		return g.ownLicence(words, texts)
	}
	return out
}

// maxText bounds the beginning of a licence's text that a document repeats, in bytes.
const maxText = 1 << 10

// ownLicence notes a licence that SPDX's list does not have, and returns its id, which is another
// for another text.
func (g *graph) ownLicence(name string, texts map[string]string) string {
	text := texts[name]
	text = strings.TrimSpace(strings.ToValidUTF8(text[:min(len(text), maxText)], ""))
	if text == "" {
		text = "The package names this licence without a text: " + name
	}
	sum := sha256.Sum256([]byte(name + "\n" + text))
	id := fmt.Sprintf("LicenseRef-%.40s-%s", identifier(name), hex.EncodeToString(sum[:4]))
	g.licences[id] = licenceText{name, text}
	return id
}
