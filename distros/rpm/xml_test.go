package rpm

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// tokens returns the content of a document in one line.
func tokens(in string) (string, error) {
	x := newXMLReader(strings.NewReader(in))
	var b strings.Builder
	for {
		token, err := x.Next()
		if errors.Is(err, io.EOF) {
			return b.String(), nil
		} else if err != nil {
			return b.String(), err
		}
		switch token {
		case xmlStart:
			fmt.Fprintf(&b, "<%s", x.Name)
			for _, a := range x.attrs {
				fmt.Fprintf(&b, " %s=%q", a.name, a.value)
			}
		case xmlEnd:
			b.WriteString(">")
		case xmlText:
			fmt.Fprintf(&b, "%q", x.Text)
		}
	}
}

func TestXML(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`<?xml version="1.0"?><a><b/>x</a>`:                          `<a<b>"x">`,
		`<rpm:a xml:base = 'it"s' c="&lt;&amp;&#65;&#x42;"></rpm:a>`: `<a base="it\"s" c="<&AB">`,
		`<a b="x > y" c="don't>"/>`:                                  `<a b="x > y" c="don't>">`,
		`<a b='>">' c=">'>" d=">"/>`:                                 `<a b=">\">" c=">'>" d=">">`,
		`<a><!-- x->-> <b/> --></a>`:                                 `<a>`,
		`<a><!-- > -- <x> --><!----><![CDATA[<&amp;]]x]>]]></a>`:     `<a"<&amp;]]x]>">`,
		"<a>\n &gt;x&quot;&apos; é </a>\n":                           `<a"\n >x\"' é ">`,
		``:                                                           ``, ` `: ``,
	} {
		assert.Equalf(t, want, require.Value(tokens(in))(t), "tokens(%s)", in)
	}
	for _, in := range []string{
		`<a>`, `</a>`, `<a b>`, `<a b=c>`, `<a b="c>`, `<a>&x;</a>`, `<a>&#0;</a>`, `<a>&#x110000;</a>`, `<a>&#;</a>`, `<a>&`, `<>`, `<a`, `<!DOCTYPE a [<!ENTITY x "y">]><a>&x;</a>`, `<a><!-- x`, `<a><!-->`,
		`<a><![CDATA[x</a>`, strings.Repeat("<a>", maxXMLDepth+1), `<a b="` + strings.Repeat("x", maxXMLTag) + `"/>`, `<a>` + strings.Repeat("x", maxXMLText+1) + `</a>`,
		`<a><!--` + strings.Repeat("x>", maxXMLText), `<a>` + strings.Repeat("<b>", 70),
	} {
		assert.ErrorIsf(t, assert.Err(tokens(in)), errXML, "tokens(%.60s)", in)
	}
}

// FuzzXML compares with the reader of the standard library if both accept a document.
func FuzzXML(f *testing.F) {
	f.Add(`<?xml version="1.0"?><m:a b="c&amp;" d='e'><b/>x &lt; y<!-- z --><![CDATA[q]]></m:a>`)
	f.Add(`<a b="x > y" c="don't">é&#x41;</a>`)
	f.Fuzz(func(t *testing.T, in string) {
		got, err := tokens(in)
		if err != nil || strings.ContainsAny(in, "\r") {
			return
		}
		d := xml.NewDecoder(strings.NewReader(in))
		var b strings.Builder
		depth := 0
		for {
			token, err := d.RawToken()
			if errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return // this reader is stricter
			}
			switch token := token.(type) {
			case xml.StartElement:
				depth++
				fmt.Fprintf(&b, "<%s", token.Name.Local)
				for _, a := range token.Attr {
					fmt.Fprintf(&b, " %s=%q", a.Name.Local, a.Value)
				}
			case xml.EndElement:
				depth--
				b.WriteString(">")
			case xml.CharData:
				if depth > 0 && strings.TrimSpace(string(token)) != "" {
					fmt.Fprintf(&b, "%q", token)
				}
			}
		}
		if want := b.String(); got != want && !strings.Contains(in, "<![CDATA[") {
			t.Errorf("tokens(%q) = %s; encoding/xml has %s", in, got, want)
		}
	})
}
