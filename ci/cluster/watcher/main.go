// Program watcher examines a node several times a second and prints a line of JSON (Sample of package sample)
// when something changed: the driver's status, the loaded module, the driver root that is served. It judges
// nothing.
//
// usage: watcher [-every 150ms]
package main

import (
	"encoding/json"
	"flag"
	"os"
	"time"

	"github.com/driver-container/driver-container/ci/cluster/sample"
)

func main() {
	every := flag.Duration("every", 150*time.Millisecond, "between two looks")
	flag.Parse()
	out := json.NewEncoder(os.Stdout)
	last, taker := sample.Sample{}, sample.Taker{Root: "/"}
	for ; ; <-time.After(*every) {
		s, ok := taker.Take()
		if !ok || s.Same(last) {
			continue
		}
		last = s
		if err := out.Encode(s); err != nil {
			os.Exit(1)
		}
	}
}
