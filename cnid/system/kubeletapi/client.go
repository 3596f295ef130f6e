// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubeletapi has the part of gRPC over HTTP/2 that the kubelet's APIs at sockets of the
// node need. The library of gRPC would double the memory of a daemon for a few requests, so
// this package makes them itself, with HTTP/2 of the standard library.
package kubeletapi

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

const (
	// largest is the size in bytes of the largest message, as in other clients of the API.
	largest = 16 << 20
	// prefixed is the length of the bytes before a message: a flag for compression, and four
	// bytes for the length (gRPC over HTTP/2, "Length-Prefixed-Message").
	prefixed = 5
	// contentType is the content type of requests and answers.
	contentType = "application/grpc"
)

// Client asks a kubelet at a socket, which the kubelet makes anew when it starts. Its methods
// may be called concurrently.
type Client struct{ http *http.Client }

// NewClient returns a client for a socket. It connects with the first request.
func NewClient(socket string) *Client {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	return &Client{http: &http.Client{Transport: &http.Transport{
		Protocols: &protocols,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
		IdleConnTimeout: time.Minute,
	}}}
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// StatusError is an answer without a message.
type StatusError struct {
	Code    int
	Message string
}

// Error implements error.
func (e StatusError) Error() string { return fmt.Sprintf("status %d: %s", e.Code, e.Message) }

// Call makes one request of a method, as "v1.PodResourcesLister/List", and returns the message
// of the answer.
func (c *Client) Call(ctx context.Context, method string, message []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(
		ctx,
		http.MethodPost,
		"http://kubelet/"+method,
		bytes.NewReader(withPrefix(message)),
	)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", contentType)
	request.Header.Set("Te", "trailers")
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the answer has HTTP status %d", response.StatusCode)
	}
	text, err := readAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	if err := statusOf(response); err != nil {
		return nil, err
	}
	return unprefixed(text)
}

func readAll(body io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(body, largest+prefixed+1))
	if err == nil && len(text) > largest+prefixed {
		return nil, fmt.Errorf("it has more than %d bytes", largest)
	}
	return text, err
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
		return StatusError{code, message}
	}
	return errors.New("the answer has no status")
}

func withPrefix(message []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
}

// unprefixed returns the one message of a body.
func unprefixed(text []byte) ([]byte, error) {
	switch {
	case len(text) < prefixed:
		return nil, fmt.Errorf("the body has %d bytes, and a message has at least %d", len(text), prefixed)
	case text[0] != 0:
		return nil, errors.New("the message is compressed")
	case binary.BigEndian.Uint32(text[1:]) != uint32(len(text)-prefixed):
		return nil, fmt.Errorf("the message has another length than it says, %d bytes", binary.BigEndian.Uint32(text[1:]))
	}
	return text[prefixed:], nil
}
