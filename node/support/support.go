// Package support collects the facts of a node for a support request in one tar archive.
//
// It reads and changes nothing. It takes no environment, no arguments and no files of users: what it takes of the
// machine is about NVIDIA's devices, modules and mounts.
package support

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/driver-container/driver-container/distros/bounded"
)

// Bounds of an archive. A part that is larger is cut.
const (
	maxPart  = 1 << 20          // bytes
	partWait = 30 * time.Second // a driver that hangs must not hang the archive
)

// Part is one file of the archive.
type Part struct {
	Name  string
	Write func(io.Writer) error
}

// ErrLeftOut says that parts are missing, incomplete or cut. Its text has the reasons, as left-out.txt in the archive.
var ErrLeftOut = errors.New("the archive is not complete")

// Write writes the parts as a tar archive. What it could get of a part that failed is in the archive. The error is
// ErrLeftOut, or that of out, whose archive is useless then.
func Write(out io.Writer, now time.Time, parts []Part) error {
	w := tar.NewWriter(out)
	add := func(name string, data []byte) error {
		err := w.WriteHeader(&tar.Header{Name: "nvidia-driver/" + name, Mode: 0o644, Size: int64(len(data)), ModTime: now.Truncate(time.Second)})
		if err == nil {
			_, err = w.Write(data)
		}
		return err
	}
	var leftOut []error
	for _, p := range parts {
		data, err := p.read()
		if err != nil {
			leftOut = append(leftOut, fmt.Errorf("%s: %w", p.Name, err))
		}
		if err := add(p.Name, data); err != nil {
			return fmt.Errorf("write the archive: %w", err)
		}
	}
	why := errors.Join(leftOut...)
	if why != nil {
		if err := add("left-out.txt", []byte(why.Error()+"\n")); err != nil {
			return fmt.Errorf("write the archive: %w", err)
		}
		why = fmt.Errorf("%w: %v", ErrLeftOut, why) //nolint:errorlint // a part's kind of error is not that of the archive
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("write the archive: %w", err)
	}
	return why
}

// read returns what a part writes, and why it is not all. A part that hangs in the kernel is left behind.
func (p Part) read() ([]byte, error) {
	text := bounded.Buffer{Limit: maxPart}
	done := make(chan error, 1)
	go func() { done <- p.Write(&text) }()
	select {
	case err := <-done:
		if text.More {
			err = errors.Join(err, &bounded.TooLargeError{Limit: maxPart})
		}
		return text.Kept, err
	case <-time.After(partWait):
		return nil, fmt.Errorf("no answer within %s", partWait)
	}
}
