package redist

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
)

// field is one key of a JSON object, in the order of the text.
type field struct {
	name  string
	value json.RawMessage
}

// object reads a JSON object and refuses a key that appears twice: readers differ in which of both counts.
func object(raw []byte, most int) ([]field, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	if t != json.Delim('{') {
		return nil, fmt.Errorf("it is %.40s, not an object", bytes.TrimSpace(raw))
	}
	var all []field
	seen := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		f := field{name: t.(string)} //nolint:errcheck,forcetypeassert // a key is a string, or Token fails
		if seen[f.name] {
			return nil, fmt.Errorf("the key %.80q appears twice", f.name)
		}
		if seen[f.name] = true; len(seen) > most {
			return nil, fmt.Errorf("it has more than %d keys: %w", most, ErrTooLarge)
		}
		if err := d.Decode(&f.value); err != nil {
			return nil, fmt.Errorf("key %.80q: %w", f.name, err)
		}
		all = append(all, f)
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	if d.More() {
		return nil, fmt.Errorf("something follows its end")
	}
	return all, nil
}

// text reads a string of bounded length.
func text(raw json.RawMessage) (string, error) {
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", fmt.Errorf("it is %.40s, not a string", raw)
	}
	if len(s) > maxText {
		return "", fmt.Errorf("it has %d bytes: %w", len(s), ErrTooLarge)
	}
	return s, nil
}

// size reads a number of bytes, which NVIDIA writes as a string.
func size(raw json.RawMessage) (int64, error) {
	s := string(raw)
	if len(raw) > 0 && raw[0] == '"' {
		var err error
		if s, err = text(raw); err != nil {
			return 0, err
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n <= 0 || n > maxFile {
		return 0, fmt.Errorf("%.40q is no size of an archive in bytes", s)
	}
	return n, nil
}
