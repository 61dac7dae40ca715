package kmod

import (
	"errors"
	"fmt"
	"strings"

	"github.com/driver-container/driver-container/distros/lazyregexp"
)

// splitParams splits a line of parameters as the kernel does (next_arg of lib/cmdline.c): blanks
// separate unless they stand between double quotes, and quotes around a value or around the whole
// are removed. It is stricter than the kernel: a quote that is not closed or that stands inside a
// value is an error, because neither could be passed on as it was meant.
func splitParams(text string) ([]string, error) {
	var params []string
	for {
		text = strings.TrimLeft(text, " \t\r\n\v\f")
		if text == "" {
			return params, nil
		}
		end := 0
		quoted := false
		for ; end < len(text) && (quoted || !strings.ContainsRune(" \t\r\n\v\f", rune(text[end]))); end++ {
			if text[end] == '"' {
				quoted = !quoted
			}
		}
		if quoted {
			return nil, fmt.Errorf("%.60q: a quote is not closed", text)
		}
		p, err := unquote(text[:end])
		if err != nil {
			return nil, err
		}
		params = append(params, p)
		text = text[end:]
	}
}

// unquote removes the quotes of "name=value" or name="value" and checks the rest.
func unquote(p string) (string, error) {
	if len(p) > 1 && p[0] == '"' && p[len(p)-1] == '"' {
		p = p[1 : len(p)-1]
	}
	name, value, assigned := strings.Cut(p, "=")
	if len(value) > 1 && value[0] == '"' && value[len(value)-1] == '"' {
		value = value[1 : len(value)-1]
	}
	if assigned {
		p = name + "=" + value
	}
	return p, checkParam(p)
}

const maxParam = 4096 // bytes of one parameter; the kernel accepts a page of text for most

var paramName = lazyregexp.New(`^[A-Za-z0-9_.-]+$`)

// checkParam refuses a parameter that could not be passed to the kernel as one.
func checkParam(p string) error {
	name, value, _ := strings.Cut(p, "=")
	switch {
	case !paramName().MatchString(name):
		return fmt.Errorf("%.60q is not a parameter: want name=value", p)
	case len(p) > maxParam:
		return fmt.Errorf("parameter %.60s is longer than %d bytes", name, maxParam)
	case strings.Contains(value, `"`):
		return fmt.Errorf("parameter %.60s: a quote inside of the value %.60q", name, value)
	case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
		return fmt.Errorf("parameter %.60s: a control character in the value %.60q", name, value)
	}
	return nil
}

// joinParams returns the text that the kernel takes for "name=value" parameters.
func joinParams(params []string) (string, error) {
	var words []string
	var errs []error
	for _, p := range params {
		errs = append(errs, checkParam(p))
		name, value, _ := strings.Cut(p, "=")
		// The kernel's isspace takes bytes of Latin 1.
		if strings.ContainsFunc(value, func(r rune) bool { return r == ' ' || r == '\t' || r >= 0x80 }) {
			p = name + `="` + value + `"`
		}
		words = append(words, p)
	}
	return strings.Join(words, " "), errors.Join(errs...)
}
