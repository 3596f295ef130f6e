// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// ErrNone reports that no agent listens. No command has begun.
var ErrNone = errors.New("no agent listens")

// Run runs a command through the agent at a socket. An error does not come from the command.
func Run(ctx context.Context, path string, command ...string) (*Result, error) {
	body, err := json.Marshal(command)
	if err != nil {
		return nil, fmt.Errorf("encode a command: %w", err)
	}
	conn, err := dial(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("%w at %s: %w", ErrNone, path, err)
	}
	defer conn.Close()
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return conn, nil },
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://agent/", bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("ask the agent at %s: %w", path, err)
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return nil, fmt.Errorf("ask the agent at %s: %w", path, err)
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	var result Result
	if err == nil {
		err = json.Unmarshal(raw, &result)
	}
	if err != nil {
		return nil, fmt.Errorf("read the answer of the agent at %s: %w", path, err)
	}
	return &result, nil
}

// dial connects to a socket whose path may be longer than an address of unix(7).
func dial(ctx context.Context, path string) (net.Conn, error) {
	dir, err := os.OpenFile(filepath.Dir(path), os.O_RDONLY|unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	short := filepath.Join("/proc/self/fd", strconv.Itoa(int(dir.Fd())), filepath.Base(path))
	return (&net.Dialer{}).DialContext(ctx, "unix", short)
}
