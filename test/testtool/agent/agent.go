// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package agent runs commands in containers of tests for the process that tests. Exec of the API
// server takes the API server, the kubelet, the runtime, its shim and three new processes for each
// command; an agent is in the container already and starts one. Its commands have the namespaces,
// groups, user and rights of the container.
package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"time"
)

// PathVariable is the environment variable of a container that has the path of the agent's socket.
// Without it no agent runs.
const PathVariable = "TESTTOOL_AGENT"

// Result has the output of a command that ran, and its end.
type Result struct {
	Stdout, Stderr string
	// Code is its exit code, -1 if a signal ended it.
	Code int
	// Failure is why it did not run, "" if it did.
	Failure string
}

// Serve runs the commands of clients at a Unix socket until ctx ends. It replaces the file of an
// earlier agent at the path.
func Serve(ctx context.Context, path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the socket of an earlier agent: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return fmt.Errorf("listen for commands: %w", err)
	}
	server := http.Server{Handler: http.HandlerFunc(serve), ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve commands: %w", err)
	}
	return nil
}

// serve runs one command, which ends with the client's connection.
func serve(w http.ResponseWriter, r *http.Request) {
	var command []string
	if err := json.NewDecoder(r.Body).Decode(&command); err != nil || len(command) == 0 {
		http.Error(w, "no command", http.StatusBadRequest)
		return
	}
	// A client that has gone reads nothing.
	_ = json.NewEncoder(w).Encode(run(r.Context(), command))
}

func run(ctx context.Context, command []string) Result {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	result := Result{Stdout: stdout.String(), Stderr: stderr.String()}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		result.Code = exit.ExitCode()
	case err != nil:
		result.Failure = err.Error()
	}
	return result
}
