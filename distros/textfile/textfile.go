// Package textfile reads text that people write and other programs save for them. PowerShell and
// some editors of Windows begin such files with a byte order mark and write UTF-16; here all of it
// becomes UTF-8 without a mark. The package does not know what is in a text, and text in another
// encoding stays as it is.
package textfile

import (
	"io"

	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"github.com/driver-container/driver-container/distros/bounded"
)

// Read returns the text of a file that [bounded.Open] opens. The limit is one of bytes, of the file
// and of the text.
func Read(path string, limit int64) ([]byte, error) {
	data, err := bounded.File(path, limit)
	if err != nil {
		return nil, err
	}
	return Decode(data, limit)
}

// Decode returns a text of at most limit bytes. Text without a byte order mark stays as it is. Larger text is a
// [bounded.ErrTooLarge]: what has two bytes in UTF-16 may have three in UTF-8.
func Decode(data []byte, limit int64) ([]byte, error) {
	text, _, err := transform.Bytes(byteOrder(), data)
	if int64(len(text)) > limit {
		return nil, bounded.TooLarge(limit)
	}
	return text, err
}

// NewReader returns a reader of a text in UTF-8. What is no UTF-16 after its mark becomes U+FFFD.
func NewReader(r io.Reader) io.Reader { return transform.NewReader(r, byteOrder()) }

func byteOrder() transform.Transformer { return unicode.BOMOverride(transform.Nop) }
