package pkcs11

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
)

// uri is a PKCS#11 URI (RFC 7512) that names a private key. Empty fields match anything.
type uri struct {
	token, manufacturer, model, serial string // as the token reports
	slot                               *uint  // slot-id
	object                             string // label of the key
	id                                 []byte // of the key
	module                             string // path of the token's library
	pinFile                            string
}

// maxURI bounds the length of a URI, in bytes.
const maxURI = 8192

// parse parses "pkcs11:token=site;object=modules?module-path=/usr/lib/softhsm/libsofthsm2.so".
// Errors never show the URI, because it may have a PIN in it by mistake.
func parse(text string) (uri, error) {
	var u uri
	rest, ok := strings.CutPrefix(text, "pkcs11:")
	if !ok || len(text) > maxURI {
		return u, errors.New(
			"it is not a PKCS#11 URI: pkcs11:token=NAME;object=KEY?module-path=/PATH/LIBRARY.so",
		)
	}
	path, query, _ := strings.Cut(rest, "?")
	seen := map[string]bool{}
	each := func(name, value string) error {
		if seen[name] {
			return fmt.Errorf("%s is there twice", name)
		}
		seen[name] = true
		return u.set(name, value)
	}
	if err := errors.Join(attributes(path, ";", each), attributes(query, "&", each)); err != nil {
		return u, err
	}
	if u.module == "" {
		return u, errors.New(
			"it does not name the token's library: add ?module-path=/PATH/LIBRARY.so",
		)
	}
	if u.object == "" && len(u.id) == 0 {
		return u, errors.New(
			"it does not name a key: add object=LABEL or id=%01 (pkcs11-tool --list-objects --login shows them)",
		)
	}
	if u.token == "" && u.serial == "" && u.slot == nil {
		return u, errors.New(
			"it does not name a token: add token=LABEL, serial=NUMBER or slot-id=NUMBER (pkcs11-tool --list-slots shows them)",
		)
	}
	return u, nil
}

// attributes splits "name=value" parts. Their values are written with %XX.
func attributes(text, separator string, each func(name, value string) error) error {
	if text == "" {
		return nil
	}
	for part := range strings.SplitSeq(text, separator) {
		name, value, ok := strings.Cut(part, "=")
		if !ok {
			return errors.New("a part of it has no =")
		}
		value, err := url.PathUnescape(value)
		if err != nil {
			return fmt.Errorf(
				"the value of %q has a %% that is not followed by two hex digits",
				name,
			)
		}
		if err := each(name, value); err != nil {
			return err
		}
	}
	return nil
}

func (u *uri) set(name, value string) error {
	if strings.ContainsRune(value, 0) && name != "id" {
		return fmt.Errorf("the value of %q has a zero byte", name)
	}
	texts := map[string]*string{
		"token":        &u.token,
		"manufacturer": &u.manufacturer,
		"model":        &u.model,
		"serial":       &u.serial,
		"object":       &u.object,
	}
	if field := texts[name]; field != nil {
		*field = value
		return nil
	}
	switch name {
	case "id":
		u.id = []byte(value)
	case "slot-id":
		n, err := strconv.ParseUint(value, 10, 31)
		if err != nil {
			return errors.New("slot-id is not a number")
		}
		slot := uint(n)
		u.slot = &slot
	case "type":
		if value != "private" {
			return errors.New("type is not private: name the private key, or leave the type out")
		}
	case "module-path":
		if !filepath.IsAbs(value) {
			return errors.New("module-path is not absolute: it is the path of the token's library")
		}
		u.module = filepath.Clean(value)
	case "pin-source":
		value = strings.TrimPrefix(value, "file:")
		if after, ok := strings.CutPrefix(value, "//"); ok { // file:///path
			value = after
		}
		if !filepath.IsAbs(value) {
			return errors.New(
				"pin-source is not the absolute path of a file: pin-source=file:/PATH",
			)
		}
		u.pinFile = filepath.Clean(value)
	case "pin-value":
		return errors.New(
			"it has the PIN itself in pin-value, where every process of the machine can read it: put it into a file and use pin-source=file:/PATH, or give the passphrase",
		)
	default:
		return fmt.Errorf(
			"its attribute %q is not known here: there are token, serial, manufacturer, model, slot-id, object, id, type, module-path, pin-source",
			name,
		)
	}
	return nil
}
