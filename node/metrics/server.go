// Package metrics serves the state of a node's instance over HTTP: /metrics for Prometheus, /healthz and
// /readyz for clients that cannot run `nvidia-driver probe`. The site lists every metric.
//
// The package reads the status and changes nothing. It asks the GPUs for memory and utilisation only during a
// scrape, no more often than Options allow, and always through node/probe's child process. There is no TLS
// and no authentication: what is served is no secret, and the cluster's network policy decides who may reach
// the port.
package metrics

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"time"

	"golang.org/x/net/netutil"

	"github.com/driver-container/driver-container/node/probe"
	"github.com/driver-container/driver-container/node/status"
)

// Limits of the server: its process must not grow, and anybody in the cluster may call it.
const (
	maxConnections = 32
	maxScrapes     = 4 // concurrent scrapes; further ones get 503
	maxHeader      = 16 << 10
	headerTime     = 3 * time.Second
	answerTime     = 15 * time.Second
	idleTime       = 2 * time.Minute // longer than the usual scrape interval
)

// Server answers /metrics, /healthz and /readyz.
type Server struct {
	source  Source
	version string
	gpus    *gpus
	handler http.Handler
}

// New returns a server that is not listening yet.
func New(source Source, o Options) *Server {
	s := &Server{source: source, version: o.Version, gpus: &gpus{query: source.GPUs, every: o.GPUEvery, life: context.Background()}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", s.scrapes(make(chan struct{}, maxScrapes)))
	mux.HandleFunc("GET /healthz", answerWith(source.Live))
	mux.HandleFunc("GET /readyz", answerWith(source.Ready))
	s.handler = mux
	return s
}

// scrapes returns the handler of /metrics; slots has room for the scrapes that are answered at a time.
func (s *Server) scrapes(slots chan struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		default:
			http.Error(w, fmt.Sprintf("%d scrapes are being answered, try again later", cap(slots)), http.StatusServiceUnavailable)
			return
		}
		s.gpus.refresh(r.Context())
		var p page
		s.collect(&p)
		w.Header().Set("Content-Type", contentType)
		_ = p.write(w) // an error means that the client has gone
	}
}

// answerWith returns a handler that answers "ok", or 503 and the error.
func answerWith(check func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		text := "ok"
		if err := check(); err != nil {
			text = strings.ToValidUTF8(err.Error(), "")
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		fmt.Fprintln(w, text)
	}
}

// Serve answers on the listener until ctx ends, then closes the listener and every connection and returns
// nil. Any other end is an error.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler: s.handler, ReadHeaderTimeout: headerTime, ReadTimeout: headerTime, WriteTimeout: answerTime, IdleTimeout: idleTime,
		MaxHeaderBytes: maxHeader, BaseContext: func(net.Listener) context.Context { return ctx },
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.gpus.life = ctx
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(netutil.LimitListener(listener, maxConnections)) }()
	var err error
	select {
	case <-ctx.Done():
		_ = server.Close() // an error of closing the listener does not matter here
		<-ended
	case err = <-ended:
		err = fmt.Errorf("serve metrics on %s: %w", listener.Addr(), err)
	}
	cancel()
	s.gpus.end()
	return err
}

// Source provides the data. Its functions are called from several goroutines.
type Source struct {
	Status func() status.Snapshot // a copy; before the lock is taken its State is ""
	Live   func() error           // the same as `nvidia-driver probe live`
	Ready  func() error           // the same as `nvidia-driver probe ready`
	// GPUs asks the driver for memory and utilisation. When it is nil, the GPUs are never asked. It has a
	// deadline of its own and returns soon after ctx ends.
	GPUs func(ctx context.Context) (probe.Answer, error)
}

// Options of New.
type Options struct {
	GPUEvery time.Duration // how old an answer about the GPUs may be before they are asked again; 0 or less: they are never asked
	Version  string        // of this program
}

const namespace = "nvidia_driver_"

func gauge(name, help string, labels ...string) metric {
	return metric{namespace + name, help, "gauge", labels}
}

func counter(name, help string, labels ...string) metric {
	return metric{namespace + name, help, "counter", labels}
}

// collect puts the metrics of the current status and of the last answer of the GPUs on a page. Nothing is kept for the next one.
func (s *Server) collect(p *page) {
	p.add(buildInfo, 1, s.version, runtime.Version())
	st := s.source.Status()
	p.status(st)
	p.start(st)
	p.trouble(st)
	p.hardware(st)
	if answer, ok := s.gpus.last(); ok {
		p.answer(answer)
	}
}

func boolValue(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
