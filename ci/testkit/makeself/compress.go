package makeself

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/klauspost/pgzip"
	"github.com/ulikunitz/xz"
)

// compressor returns the writer for the payload; Close it to complete the payload.
func (a *Archive) compressor(ctx context.Context, w io.Writer) (io.WriteCloser, error) {
	switch a.Compression {
	case "gzip":
		if a.Fast {
			return gzip.NewWriterLevel(w, gzip.BestSpeed)
		}
		return pgzip.NewWriterLevel(w, pgzip.BestCompression)
	case "zstd":
		level := zstd.EncoderLevelFromZstd(9)
		if a.Fast {
			level = zstd.SpeedFastest
		}
		return zstd.NewWriter(w, zstd.WithEncoderLevel(level))
	case "xz", "":
		return a.xz(ctx, w)
	case "none":
		return plain{w}, nil
	}
	return nil, fmt.Errorf("unknown compression %q: gzip, xz or zstd", a.Compression)
}

type plain struct{ io.Writer }

func (plain) Close() error { return nil }

// xz compresses as NVIDIA's makeself does: level 6, no integrity check, several blocks because of several
// threads. The xz program is four times as fast as the library, which is used on machines without the
// program.
func (a *Archive) xz(ctx context.Context, w io.Writer) (io.WriteCloser, error) {
	program, err := exec.LookPath("xz")
	if err != nil {
		return xzLibrary(w)
	}
	level := "-6"
	if a.Fast {
		level = "-0"
	}
	cmd := exec.CommandContext(ctx, program, level, "-C", "none", "-T2", "-c") //nolint:gosec // fixed arguments
	cmd.Stdout = w
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	return &pipe{WriteCloser: stdin, cmd: cmd}, nil
}

func xzLibrary(w io.Writer) (io.WriteCloser, error) {
	return xz.WriterConfig{NoCheckSum: true, DictCap: 8 << 20}.NewWriter(w)
}

// pipe writes to a program; Close waits for the program's end.
type pipe struct {
	io.WriteCloser
	cmd *exec.Cmd
}

func (p *pipe) Close() error { return errors.Join(p.WriteCloser.Close(), p.cmd.Wait()) }
