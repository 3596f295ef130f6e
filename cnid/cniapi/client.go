// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cniapi

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
	"time"

	"github.com/containernetworking/cni/pkg/types"
)

const (
	// HeartbeatInterval is how often a daemon that is alive sets the
	// modification time of its socket.
	HeartbeatInterval = 15 * time.Second
	// RestartGrace is how long a daemon may be away before STATUS says so. A
	// failing STATUS makes the node NotReady and takes its pods out of every
	// Service, which a restart or a roll-out must not do.
	RestartGrace = 60 * time.Second
	// maxResponse bounds what the client reads, in bytes.
	maxResponse = 1 << 20
)

// Client talks to the daemon. The zero value uses DefaultSocket.
type Client struct {
	// Socket is the path of the daemon's socket.
	Socket string
	// Now is the clock; time.Now when nil.
	Now func() time.Time
}

// SocketIn returns the socket that a network configuration names with the key
// "socket", or DefaultSocket.
func SocketIn(config []byte) string {
	var conf struct {
		Socket string `json:"socket"`
	}
	if err := json.Unmarshal(config, &conf); err != nil || conf.Socket == "" {
		return DefaultSocket
	}
	return conf.Socket
}

// Do carries out a command and returns what the plugin has to print, which may
// be nothing. All its errors are a *types.Error. Closing ctx cancels the
// command.
//
// What a command means while no daemon answers is decided here:
//
//   - ADD, CHECK and GC fail with CodeNotReady; the runtime tries again.
//   - STATUS fails once the daemon has been away for RestartGrace.
//   - DEL succeeds. The daemon's journal on disk holds what there is to undo,
//     and when the daemon is back it undoes every attachment whose network
//     namespace is gone, which is what the runtime makes of it next. A failure
//     would gain nothing and would keep pods Terminating, and with them drains
//     and the very roll-out that brings the daemon back. For the same reason a
//     DEL that the daemon began and did not survive succeeds.
func (c Client) Do(ctx context.Context, req Request) ([]byte, error) {
	resp, err := c.post(ctx, req)
	var away *awayError
	if errors.As(err, &away) {
		return nil, c.whileAway(req.Command, away)
	}
	if err != nil {
		return nil, err
	}
	if resp.Error != nil {
		return nil, resp.Error
	}
	return resp.Result, nil
}

// awayError says that no daemon answered, or that it went away meanwhile.
type awayError struct{ cause error }

func (e *awayError) Error() string { return e.cause.Error() }

func (c Client) whileAway(command string, away *awayError) error {
	text := fmt.Sprintf("alioth-cnid on this node does not answer at %s: %v", c.socket(), away.cause)
	switch command {
	case "DEL":
		return nil
	case "STATUS":
		if c.lastAlive() < RestartGrace+HeartbeatInterval {
			return nil
		}
		return types.NewError(CodeUnavailable, text, "")
	}
	return types.NewError(CodeNotReady, "network is not ready - "+text, "")
}

// lastAlive returns for how long there has been no sign of a daemon.
func (c Client) lastAlive() time.Duration {
	info, err := os.Stat(c.socket())
	if err != nil {
		return 1<<63 - 1 // no daemon has listened since boot
	}
	now := time.Now
	if c.Now != nil {
		now = c.Now
	}
	return now().Sub(info.ModTime())
}

func (c Client) socket() string {
	if c.Socket == "" {
		return DefaultSocket
	}
	return c.Socket
}

// post returns the daemon's answer, an *awayError, or a *types.Error.
func (c Client) post(ctx context.Context, req Request) (*Response, error) {
	body, err := json.Marshal(req)
	if err != nil {
		return nil, types.NewError(types.ErrInternal, "encode request", err.Error())
	}
	// The host part of the URL means nothing on a unix socket.
	httpReq, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://alioth-cnid"+PathV1, bytes.NewReader(body))
	if err != nil {
		return nil, types.NewError(types.ErrInternal, "make request", err.Error())
	}
	httpReq.Header.Set("Content-Type", "application/json")
	httpResp, err := c.http().Do(httpReq)
	if err != nil && ctx.Err() != nil {
		return nil, types.NewError(CodeNotReady, "network is not ready - alioth-cnid did not finish in time", ctx.Err().Error())
	}
	if err != nil {
		return nil, &awayError{cause: err}
	}
	defer func() { _ = httpResp.Body.Close() }()
	return decode(httpResp)
}

func (c Client) http() *http.Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", c.socket())
	}
	return &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true, DisableCompression: true}}
}

func decode(httpResp *http.Response) (*Response, error) {
	if httpResp.StatusCode != http.StatusOK {
		return nil, types.NewError(CodeNotReady, fmt.Sprintf("network is not ready - alioth-cnid does not speak %s (%s): "+
			"the plugin binary and the daemon are of different releases; the daemon's roll-out may still be under way", PathV1, httpResp.Status), "")
	}
	text, err := io.ReadAll(io.LimitReader(httpResp.Body, maxResponse))
	if err != nil {
		return nil, &awayError{cause: fmt.Errorf("read answer: %w", err)}
	}
	var resp Response
	if err := json.Unmarshal(text, &resp); err != nil {
		return nil, types.NewError(types.ErrDecodingFailure, "decode the daemon's answer", err.Error())
	}
	return &resp, nil
}
