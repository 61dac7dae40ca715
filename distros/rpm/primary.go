package rpm

import (
	"errors"
	"fmt"
	"io"
	"strconv"
)

// readPrimary reads the packages of a primary.xml. It is written for speed: Fedora's has 180 MB.
func (b *builder) readPrimary(in io.Reader) error {
	x := newXML(in)
	for {
		token, err := x.next()
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if token != xmlStart {
			continue
		}
		switch {
		case x.depth == 1 && string(x.name) != "metadata":
			return fmt.Errorf("it begins with <%.40s>, want <metadata>", x.name)
		case x.depth == 2 && string(x.name) == "package":
			b.begin()
			if err := b.readPackage(x); err != nil {
				return fmt.Errorf("package %.80q: %w", b.e.name, err)
			}
			if err := b.end(); err != nil {
				return err
			}
		}
	}
}

// readPackage reads one package element to its end.
func (b *builder) readPackage(x *xmlReader) error {
	for {
		token, err := x.next()
		if err != nil {
			return err
		}
		switch {
		case token == xmlEnd && x.depth == 1:
			return nil
		case token != xmlStart:
			continue
		}
		if x.depth == 3 {
			err = b.readElement(x)
		} else if !b.skip() {
			err = b.readFormat(x)
		}
		if err != nil {
			return err
		}
	}
}

// readElement reads what stands directly in a package.
func (b *builder) readElement(x *xmlReader) (err error) {
	switch string(x.name) {
	case "name":
		b.e.name, err = b.readText(x)
	case "arch":
		b.e.arch, err = b.readText(x)
	case "version":
		b.e.evr = b.evr(x.attr("epoch"), x.attr("ver"), x.attr("rel"))
	case "checksum":
		b.digestType = b.text(x.attr("type"))
		b.digest, err = x.readString()
	case "location":
		b.href, b.xmlBase = string(x.attr("href")), b.text(x.attr("base"))
	case "size":
		if b.e.size, err = number(x.attr("package")); err == nil {
			b.e.installed, err = number(x.attr("installed"))
		}
	case "time":
		b.e.built, err = number(x.attr("build"))
	}
	return err
}

// readFormat reads what stands in the format of a package.
func (b *builder) readFormat(x *xmlReader) error {
	if x.depth == 5 && string(x.name) == "entry" && b.list >= 0 {
		return b.relation(b.list, x.attr("name"), x.attr("flags"), x.attr("epoch"), x.attr("ver"), x.attr("rel"))
	}
	if x.depth != 4 {
		return nil
	}
	b.list = -1
	switch string(x.name) {
	case "requires":
		b.list = requires
	case "provides":
		b.list = provides
	case "conflicts":
		b.list = conflicts
	case "obsoletes":
		b.list = obsoletes
	case "file":
		token, err := x.next()
		if err != nil || token != xmlText {
			return err
		}
		return b.file(x.text)
	default:
		return nil
	}
	b.relations(b.list)
	return nil
}

// readText reads the text of an element that was begun.
func (b *builder) readText(x *xmlReader) (string, error) {
	token, err := x.next()
	if err != nil || token != xmlText {
		return "", err
	}
	return b.text(x.text), nil
}

func number(b []byte) (int64, error) {
	if len(b) == 0 {
		return 0, nil
	}
	n, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%.40q is not a number", b)
	}
	return n, nil
}
