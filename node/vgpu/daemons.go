package vgpu

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/driver-container/driver-container/node/daemons"
)

// Where the licence daemons are in an image.
const (
	griddProgram     = "usr/bin/nvidia-gridd"
	topologydProgram = "usr/bin/nvidia-topologyd"
)

// griddDir returns the folder of nvidia-gridd's own libraries, below the system's library folder.
func (f Facts) griddDir() string {
	triplet := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH] + "-linux-gnu"
	const rpm = "usr/lib64/nvidia/gridd" // library folder of rpm systems
	if st, err := os.Stat(f.path(rpm)); err == nil && st.IsDir() {
		return rpm
	}
	return "usr/lib/" + triplet + "/nvidia/gridd"
}

func (f Facts) has(name string) bool {
	st, err := os.Stat(f.path(name))
	return err == nil && st.Mode().IsRegular()
}

// Daemons returns the licence and topology daemons that the image has. Before each start the
// licence's files are read and copied again, because they may have been renewed.
func Daemons(f Facts) []daemons.Spec {
	f = f.withDefaults()
	var specs []daemons.Spec
	if f.has(griddProgram) {
		specs = append(specs, daemons.Spec{
			Name: "nvidia-gridd", Path: f.path(griddProgram), Required: true,
			Env: append(os.Environ(), "LD_LIBRARY_PATH="+f.path(f.griddDir())),
			PIDFile: f.path(
				"var/run/nvidia-gridd/nvidia-gridd.pid",
			), Effect: "the vGPUs get no licence, and become slow after some minutes to a day",
			Before: func(context.Context) error { return f.prepare() },
			FindArgs: func(context.Context) ([]string, string, error) {
				l, err := f.Licence()
				return nil, strings.Join(append([]string{l.String()}, l.Notes...), "; "), err
			},
		})
	}
	if f.has(topologydProgram) {
		specs = append(specs, daemons.Spec{
			Name: "nvidia-topologyd", Path: f.path(topologydProgram), Required: true,
			PIDFile: f.path("var/run/nvidia-topologyd/nvidia-topologyd.pid"),
			Before: func(context.Context) error {
				return os.MkdirAll(f.path("var/run/nvidia-topologyd"), 0o755)
			},
		})
	}
	return specs
}

// prepare makes the folders of nvidia-gridd, and copies the files of the licence.
func (f Facts) prepare() error {
	for _, dir := range []string{"var/run/nvidia-gridd", "var/lib/nvidia/GridLicensing"} {
		if err := os.MkdirAll(f.path(dir), 0o755); err != nil {
			return fmt.Errorf("make a folder of nvidia-gridd: %w", err)
		}
	}
	l, err := f.Licence()
	if err != nil {
		return err
	}
	return f.install(l)
}

// ErrToken says that a file is no client configuration token. Messages never have its content.
var ErrToken = errors.New("not a client configuration token of a licence server")

// maxToken bounds a token: real ones have 2 to 3 KiB.
const maxToken = 64 << 10

// tokenTimes returns from when and until when a token is valid; zero times if it does not say so. A
// token is a JWT, whose times can be read without its key; whether it is genuine only the licence
// server knows. Errors are ErrToken.
func tokenTimes(data []byte) (from, until time.Time, err error) {
	data = bytes.TrimSpace(data)
	parts := bytes.Split(data, []byte("."))
	if len(data) > maxToken || len(parts) != 3 || len(parts[2]) == 0 {
		return from, until, fmt.Errorf(
			"%w: it does not have three parts with points between them",
			ErrToken,
		)
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
			return time.Time{}, time.Time{}, fmt.Errorf(
				"%w: one of its times is out of range",
				ErrToken,
			)
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
