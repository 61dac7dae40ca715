package rpm

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// xmlReader reads the XML of repositories. The project has its own reader because these lists are
// large (Fedora's primary has 180 MB) and may be hostile: it takes a fifth of the time of
// encoding/xml, copies nothing, knows no entities except the five predefined ones and no document
// types, and has its own bounds. Names are without their namespace prefix.
type xmlReader struct {
	in    *bufio.Reader
	buf   []byte // the tag or the text being read
	Name  []byte // of xmlStart and xmlEnd
	Text  []byte // of xmlText
	attrs []attr // of xmlStart
	Depth int
	close bool // an empty element was begun: the next token is its end
}

type attr struct{ name, value []byte }

// xmlToken is the kind of what xmlReader.Next has read.
type xmlToken int

// The kinds of tokens.
const (
	xmlStart xmlToken = iota + 1
	xmlEnd
	xmlText
)

const (
	maxXMLTag   = 64 << 10 // bytes of one tag
	maxXMLText  = 4 << 20  // bytes of one text; descriptions and changelogs are below 1 MiB
	maxXMLDepth = 64
)

var (
	errXML = errors.New("malformed XML")
	errCut = fmt.Errorf("%w: it ends in the middle", errXML)
)

// newXMLReader returns a reader of a document.
func newXMLReader(r io.Reader) *xmlReader {
	return &xmlReader{in: bufio.NewReaderSize(r, 256<<10)}
}

// Next reads up to the next start, end or text. At the end of the document it returns io.EOF. The
// next call overwrites Name, Text and the attributes.
func (x *xmlReader) Next() (xmlToken, error) {
	if x.close {
		x.close = false
		x.Depth--
		return xmlEnd, nil
	}
	for {
		c, err := x.in.ReadByte()
		if err != nil {
			if errors.Is(err, io.EOF) && x.Depth > 0 {
				return 0, fmt.Errorf("%w: it ends inside of an element", errXML)
			}
			return 0, err
		}
		if c != '<' {
			if err := x.in.UnreadByte(); err != nil {
				return 0, err
			}
			if err := x.readText(); err != nil {
				return 0, err
			}
			if x.Depth > 0 && len(bytes.TrimSpace(x.Text)) > 0 {
				return xmlText, nil
			}
			continue
		}
		token, err := x.readTag()
		if err != nil || token != 0 {
			return token, err
		}
	}
}

// until reads up to the byte c, which is not part of the result, and at most limit bytes.
func (x *xmlReader) until(c byte, limit int) error {
	for {
		piece, err := x.in.ReadSlice(c)
		x.buf = append(x.buf, piece...)
		if len(x.buf) > limit {
			return fmt.Errorf("%w: more than %d bytes in one piece", errXML, limit)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if errors.Is(err, io.EOF) {
			return errCut
		}
		if err != nil {
			return err
		}
		x.buf = x.buf[:len(x.buf)-1]
		return nil
	}
}

func (x *xmlReader) readText() error {
	x.buf = x.buf[:0]
	err := x.until('<', maxXMLText)
	if x.Depth == 0 && errors.Is(err, errCut) {
		return nil // what follows the document
	}
	if err != nil {
		return err
	}
	err = x.in.UnreadByte()
	if err != nil {
		return err
	}
	x.Text, err = unescape(x.buf)
	return err
}

// readTag reads the part of a tag that follows its <. For comments and processing instructions it
// returns token 0.
func (x *xmlReader) readTag() (xmlToken, error) {
	x.buf = x.buf[:0]
	if err := x.until('>', maxXMLTag); err != nil {
		return 0, err
	}
	switch b := x.buf; {
	case len(b) == 0:
		return 0, fmt.Errorf("%w: an empty tag", errXML)
	case b[0] == '?':
		return 0, nil
	case bytes.HasPrefix(b, []byte("!--")):
		return 0, x.skipComment()
	case bytes.HasPrefix(b, []byte("![CDATA[")) && x.Depth > 0:
		return x.readCDATA()
	case b[0] == '!':
		return 0, fmt.Errorf("%w: document types are not read", errXML)
	case b[0] == '/':
		if x.Depth--; x.Depth < 0 {
			return 0, fmt.Errorf("%w: an end without a beginning", errXML)
		}
		x.Name = local(bytes.TrimSpace(b[1:]))
		return xmlEnd, nil
	}
	for quote := quoteAfter(x.buf, 0); quote != 0; { // a value may contain >
		x.buf = append(x.buf, '>')
		start := len(x.buf)
		err := x.until('>', maxXMLTag)
		if err != nil {
			return 0, err
		}
		quote = quoteAfter(x.buf[start:], quote)
	}
	b := x.buf
	if x.Depth++; x.Depth > maxXMLDepth {
		return 0, fmt.Errorf("%w: more than %d elements inside of each other", errXML, maxXMLDepth)
	}
	if b[len(b)-1] == '/' {
		x.close = true
		b = b[:len(b)-1]
	}
	return xmlStart, x.readAttrs(b)
}

// quoteAfter returns the quote of the value in which a piece of a tag ends, 0 if it ends in none.
// open is that before it.
func quoteAfter(piece []byte, open byte) byte {
	if open == 0 && bytes.IndexByte(piece, '\'') < 0 && bytes.Count(piece, []byte{'"'})%2 == 0 {
		return 0
	}
	for _, c := range piece {
		switch {
		case open == 0 && (c == '"' || c == '\''):
			open = c
		case c == open:
			open = 0
		}
	}
	return open
}

// readCDATA reads text that is not escaped.
func (x *xmlReader) readCDATA() (xmlToken, error) {
	for !bytes.HasSuffix(x.buf, []byte("]]")) {
		x.buf = append(x.buf, '>')
		if err := x.until('>', maxXMLText); err != nil {
			return 0, err
		}
	}
	x.Text = bytes.TrimSuffix(bytes.TrimPrefix(x.buf, []byte("![CDATA[")), []byte("]]"))
	return xmlText, nil
}

// skipComment skips to the end of a comment, which may contain >.
func (x *xmlReader) skipComment() error {
	for total := 0; !bytes.HasSuffix(x.buf, []byte("--")) || len(x.buf) < 5 && total == 0; {
		if total += len(x.buf) + 1; total > maxXMLText {
			return fmt.Errorf("%w: a comment of more than %d bytes", errXML, maxXMLText)
		}
		x.buf = x.buf[:0] // the hyphens at the end stand together, without this >
		if err := x.until('>', maxXMLTag); err != nil {
			return err
		}
	}
	return nil
}

func (x *xmlReader) readAttrs(b []byte) error {
	end := bytes.IndexAny(b, " \t\r\n")
	if end < 0 {
		end = len(b)
	}
	x.Name = local(b[:end])
	b = b[end:]
	x.attrs = x.attrs[:0]
	for {
		b = bytes.TrimLeft(b, " \t\r\n")
		if len(b) == 0 {
			return nil
		}
		eq := bytes.IndexByte(b, '=')
		if eq < 0 {
			return fmt.Errorf("%w: an attribute without a value", errXML)
		}
		name := bytes.TrimRight(b[:eq], " \t\r\n")
		b = bytes.TrimLeft(b[eq+1:], " \t\r\n")
		if len(b) == 0 || b[0] != '"' && b[0] != '\'' {
			return fmt.Errorf("%w: the value of an attribute is not quoted", errXML)
		}
		stop := bytes.IndexByte(b[1:], b[0])
		if stop < 0 {
			return fmt.Errorf("%w: the value of an attribute does not end", errXML)
		}
		value, err := unescape(b[1 : 1+stop])
		if err != nil {
			return err
		}
		x.attrs = append(x.attrs, attr{local(name), value})
		b = b[stop+2:]
	}
}
