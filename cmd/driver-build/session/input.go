package session

import (
	"context"
	"io"
)

// Input is stdin, whose reading ends with ctx: nothing else ends a read of a pipe whose writer waits.
func (a *App) Input(ctx context.Context) io.Reader { return input{ctx, a.Stdin} }

type input struct {
	ctx context.Context //nolint:containedctx // io.Reader has none
	in  io.Reader
}

type chunk struct {
	data []byte
	err  error
}

func (i input) Read(p []byte) (int, error) {
	read := make(chan chunk, 1)
	go func() { // it stays until the process ends if no content comes
		buf := make([]byte, len(p))
		n, err := i.in.Read(buf)
		read <- chunk{buf[:n], err}
	}()
	select {
	case c := <-read:
		return copy(p, c.data), c.err
	case <-i.ctx.Done():
		return 0, context.Cause(i.ctx)
	}
}
