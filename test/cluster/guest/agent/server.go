// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/test/cluster/process"
)

// Server is the agent. It is safe for concurrent use.
type Server struct {
	mu      sync.Mutex
	daemons map[string]daemon
}

// daemon is a process that was started under its name.
type daemon struct {
	spec  process.Spec
	child *process.Child
}

// NewServer returns an agent that has started nothing.
func NewServer() *Server { return &Server{daemons: map[string]daemon{}} }

// Handler serves the requests of clients.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+pathRun, run)
	mux.HandleFunc("POST "+pathStart, s.start)
	mux.HandleFunc("POST "+pathStop, s.stop)
	mux.HandleFunc("POST "+pathDial, dial)
	return mux
}

// run runs a command and streams its output.
func run(w http.ResponseWriter, r *http.Request) {
	var c Command
	if !decode(w, r, &c) {
		return
	}
	if len(c.Args) == 0 {
		http.Error(w, "no command", http.StatusBadRequest)
		return
	}
	out := &frames{w: w, encoder: json.NewEncoder(w)}
	cmd := exec.CommandContext(r.Context(), c.Args[0], c.Args[1:]...)
	cmd.Dir, cmd.Env = "/", c.Env
	cmd.Stdout, cmd.Stderr = stream{out, false}, stream{out, true}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	last := Frame{Ended: true}
	if err := cmd.Run(); err != nil {
		last.Failure = err.Error()
	}
	// A client that has gone reads no last frame.
	_ = out.send(last)
}

// frames writes frames to a client, each at once.
type frames struct {
	mu      sync.Mutex
	w       http.ResponseWriter
	encoder *json.Encoder
}

func (f *frames) send(frame Frame) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.encoder.Encode(frame); err != nil {
		return fmt.Errorf("write to the client: %w", err)
	}
	return http.NewResponseController(f.w).Flush()
}

// stream is the standard output or the standard error of a command.
type stream struct {
	frames *frames
	stderr bool
}

func (s stream) Write(p []byte) (int, error) {
	frame := Frame{Stdout: p}
	if s.stderr {
		frame = Frame{Stderr: p}
	}
	if err := s.frames.send(frame); err != nil {
		return 0, err
	}
	return len(p), nil
}

// start starts a daemon, unless one of the same name runs. Without arguments it starts the daemon
// that was started under this name before.
func (s *Server) start(w http.ResponseWriter, r *http.Request) {
	var spec process.Spec
	if !decode(w, r, &spec) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	known, ok := s.daemons[spec.Name]
	if ok && known.child.ID.Alive() {
		return
	}
	if len(spec.Args) == 0 {
		spec = known.spec
	}
	if len(spec.Args) == 0 {
		http.Error(w, "start a daemon: no such one has run, and no arguments are given", http.StatusNotFound)
		return
	}
	child, err := process.Start(spec)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	s.daemons[spec.Name] = daemon{spec, child}
}

// stop kills a daemon and waits for its end.
func (s *Server) stop(w http.ResponseWriter, r *http.Request) {
	var spec process.Spec
	if !decode(w, r, &spec) {
		return
	}
	s.mu.Lock()
	known, ok := s.daemons[spec.Name]
	s.mu.Unlock()
	if !ok {
		http.Error(w, fmt.Sprintf("no daemon %q was started here", spec.Name), http.StatusNotFound)
		return
	}
	if err := errors.Join(known.child.ID.Signal(unix.SIGKILL), known.child.ID.Wait(r.Context())); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// dial connects the client to a socket: from the answer on, its connection is that to
// the socket.
func dial(w http.ResponseWriter, r *http.Request) {
	target, err := (&net.Dialer{}).DialContext(r.Context(), "unix", r.URL.Query().Get("socket"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer target.Close()
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer client.Close()
	if _, err := io.WriteString(client, switched); err != nil {
		return
	}
	join(target, client, buffered)
}

// switched is the answer that turns a connection into a connection to a socket.
const switched = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: socket\r\n\r\n"

// join passes on the data of either side until both have ended theirs.
func join(target, client net.Conn, fromClient io.Reader) {
	var wg sync.WaitGroup
	wg.Go(func() { pass(target, fromClient) })
	wg.Go(func() { pass(client, target) })
	wg.Wait()
}

// pass copies to the end, and tells the other side of it.
func pass(to net.Conn, from io.Reader) {
	_, _ = io.Copy(to, from) // a broken connection ends like any other
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

func decode(w http.ResponseWriter, r *http.Request, into any) bool {
	err := json.NewDecoder(r.Body).Decode(into)
	if err != nil {
		http.Error(w, "read the request: "+err.Error(), http.StatusBadRequest)
	}
	return err == nil
}
