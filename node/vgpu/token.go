package vgpu

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// ErrToken says that a file is no client configuration token. Messages never have its content.
var ErrToken = errors.New("not a client configuration token of a licence server")

// maxToken bounds a token: real ones have 2 to 3 KiB.
const maxToken = 64 << 10

// tokenTimes returns from when and until when a token is valid; zero times if it does not say so. A token is
// a JWT, whose times can be read without its key; whether it is genuine only the licence server knows. Errors
// are ErrToken.
func tokenTimes(data []byte) (from, until time.Time, err error) {
	data = bytes.TrimSpace(data)
	parts := bytes.Split(data, []byte("."))
	if len(data) > maxToken || len(parts) != 3 || len(parts[2]) == 0 {
		return from, until, fmt.Errorf("%w: it does not have three parts with points between them", ErrToken)
	}
	var header struct {
		Alg string `json:"alg"`
	}
	if err := tokenPart(parts[0], &header); err != nil || header.Alg == "" {
		return from, until, fmt.Errorf("%w: its first part names no algorithm", ErrToken)
	}
	var claims struct {
		NotBefore *float64 `json:"nbf"`
		Expires   *float64 `json:"exp"`
	}
	if err := tokenPart(parts[1], &claims); err != nil {
		return from, until, fmt.Errorf("%w: its second part is no list of claims", ErrToken)
	}
	for _, c := range []struct {
		seconds *float64
		to      *time.Time
	}{{claims.NotBefore, &from}, {claims.Expires, &until}} {
		const year10000 = 253402300800
		switch {
		case c.seconds == nil:
		case *c.seconds < 0 || *c.seconds >= year10000:
			return time.Time{}, time.Time{}, fmt.Errorf("%w: one of its times is out of range", ErrToken)
		default:
			*c.to = time.Unix(int64(*c.seconds), 0).UTC()
		}
	}
	return from, until, nil
}

func tokenPart(text []byte, to any) error {
	data, err := base64.RawURLEncoding.DecodeString(string(bytes.TrimRight(text, "=")))
	if err != nil {
		return err
	}
	return json.Unmarshal(data, to)
}
