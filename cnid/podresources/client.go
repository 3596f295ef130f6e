// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podresources asks the kubelet which devices it has allocated to a pod, by its
// API for that (Kubernetes 1.28 and later, "Monitoring device plugin resources"). The
// library of gRPC would double the memory of a daemon for two requests without streams, so
// this package makes them itself: HTTP/2 of the standard library and the fields that it needs.
package podresources

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// DefaultSocket is where the kubelet serves the API. The kubelet makes the socket anew when
// it starts.
const DefaultSocket = "/var/lib/kubelet/pod-resources/kubelet.sock"

const (
	// patience bounds a request: the kubelet allows 100 in a second for all clients.
	patience = 10 * time.Second
	// largest is the size in bytes of the largest answer, as in other clients of the API.
	largest = 16 << 20
	// prefixed is the length of what precedes a message: a flag for compression, and
	// four bytes for the length (gRPC over HTTP/2, "Length-Prefixed-Message").
	prefixed = 5
)

// Client asks the kubelet of one node. Its methods may be called concurrently.
type Client struct {
	socket string
	http   *http.Client
}

// New returns a client for the kubelet at a socket. It connects with the first request.
func New(socket string) *Client {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	return &Client{socket: socket, http: &http.Client{Transport: &http.Transport{
		Protocols: &protocols,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
		IdleConnTimeout: time.Minute,
	}}}
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Devices returns the devices that the containers of a pod have, by the name of their
// extended resource. It does not return those of init containers that end. A pod that the
// kubelet does not know has none.
func (c *Client) Devices(ctx context.Context, namespace, name string) (Devices, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	// Kubernetes before 1.34 does not serve Get by default, and every answer but the
	// pod's own leaves the question open: List is served always.
	if answer, err := c.call(ctx, "Get", pod(namespace, name).request()); err == nil {
		return readGet(answer)
	} else if status := (statusError{}); !errors.As(err, &status) {
		return nil, c.explain(err)
	}
	answer, err := c.call(ctx, "List", nil)
	if err != nil {
		return nil, c.explain(err)
	}
	return readList(answer, namespace, name)
}

func (c *Client) explain(err error) error {
	return fmt.Errorf("ask the kubelet for the pod's devices at %s (is the folder mounted, and is Kubernetes 1.28 or later?): %w", c.socket, err)
}

// statusError is an answer without a message.
type statusError struct {
	code    int
	message string
}

// Error implements error.
func (e statusError) Error() string { return fmt.Sprintf("status %d: %s", e.code, e.message) }

// call makes one request of the service v1.PodResourcesLister, and returns the message of
// the answer.
func (c *Client) call(ctx context.Context, method string, message []byte) ([]byte, error) {
	body := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://kubelet/v1.PodResourcesLister/"+method, bytes.NewReader(append(body, message...)))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/grpc")
	request.Header.Set("Te", "trailers")
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the answer has HTTP status %d", response.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, largest+prefixed+1))
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	if len(text) > largest+prefixed {
		return nil, fmt.Errorf("the answer has more than %d bytes", largest)
	}
	if err := statusOf(response); err != nil {
		return nil, err
	}
	return unprefixed(text)
}

// statusOf returns the error of an answer. An answer without a message has its status in
// the header.
func statusOf(response *http.Response) error {
	for _, fields := range []http.Header{response.Trailer, response.Header} {
		text := fields.Get("Grpc-Status")
		if text == "" {
			continue
		}
		code, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("the answer has the status %.40q", text)
		}
		if code == 0 {
			return nil
		}
		message, err := url.PathUnescape(fields.Get("Grpc-Message"))
		if err != nil {
			message = fields.Get("Grpc-Message")
		}
		return statusError{code, message}
	}
	return errors.New("the answer has no status")
}

// unprefixed returns the one message of an answer.
func unprefixed(text []byte) ([]byte, error) {
	switch {
	case len(text) < prefixed:
		return nil, fmt.Errorf("the answer has %d bytes, and a message has at least %d", len(text), prefixed)
	case text[0] != 0:
		return nil, errors.New("the message is compressed")
	case binary.BigEndian.Uint32(text[1:]) != uint32(len(text)-prefixed):
		return nil, fmt.Errorf("the message has another length than it says, %d bytes", binary.BigEndian.Uint32(text[1:]))
	}
	return text[prefixed:], nil
}
