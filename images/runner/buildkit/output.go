package buildkit

import (
	"bytes"

	"github.com/moby/buildkit/client"
	"github.com/opencontainers/go-digest"

	"github.com/driver-container/driver-container/images/runner"
)

const maxPart = 16 << 10 // bytes of an unfinished line

// output turns the progress of a solve into the lines that the command printed. One goroutine uses it; others
// read it after that goroutine has ended.
type output struct {
	vertex digest.Digest // of the command
	lines  *runner.Lines
	print  func(string)
	parts  [3][]byte // unfinished lines of stdout (1) and stderr (2), which BuildKit keeps apart
	cached bool
}

func (o *output) take(s *client.SolveStatus) {
	for _, v := range s.Vertexes {
		if v.Digest == o.vertex && v.Cached && !o.cached {
			o.cached = true
			o.print("cached")
		}
	}
	for _, l := range s.Logs {
		if l.Vertex == o.vertex {
			o.write(l.Stream, l.Data)
		}
	}
}

// write passes on whole lines only, so that a line of stderr does not split one of stdout.
func (o *output) write(stream int, data []byte) {
	if stream < 0 || stream >= len(o.parts) {
		stream = 0
	}
	data = append(o.parts[stream], data...)
	end := bytes.LastIndexByte(data, '\n') + 1
	if len(data)-end > maxPart {
		end = len(data)
	}
	_, _ = o.lines.Write(data[:end]) // never fails
	o.parts[stream] = append([]byte(nil), data[end:]...)
}

// tail ends unfinished lines and returns the last lines.
func (o *output) tail() []string {
	for i, p := range o.parts {
		if len(p) > 0 {
			_, _ = o.lines.Write(append(p, '\n'))
			o.parts[i] = nil
		}
	}
	return o.lines.Tail()
}
