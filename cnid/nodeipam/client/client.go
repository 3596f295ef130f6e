// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package client asks the node IPAM API (package wire) over its unix socket. The CNI plugin
// links it, so it imports little.
package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/alioth-net/alioth/cnid/cni/cniapi"
	"github.com/alioth-net/alioth/cnid/nodeipam/wire"
)

// DefaultSocket is the socket of the daemon. Only root can open it.
const DefaultSocket = "/run/alioth/node-ipam.sock"

// maxAnswer limits the size of an answer, in bytes.
const maxAnswer = 1 << 20

// Client talks to the service. The zero value uses DefaultSocket.
type Client struct {
	// Socket is the path of the service's socket.
	Socket string
}

// Error is an error that the service answered.
type Error struct {
	Code    wire.ReturnCode
	Message string
}

// Error returns the message of the answer.
func (e *Error) Error() string { return e.Message }

// Passes reports whether asking again will help.
func (e *Error) Passes() bool { return e.Code == wire.UnexpectedError }

// UnreachableError reports that nothing answers, or that the answer does not come from this API.
// The request may have been carried out.
type UnreachableError struct {
	Socket string
	Cause  error
}

// Error returns a text for users.
func (e *UnreachableError) Error() string {
	return fmt.Sprintf("the node IPAM API does not answer at %s: %v", e.Socket, e.Cause)
}

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Cause }

// Request attaches a container, and returns its addresses.
func (c Client) Request(ctx context.Context, r wire.IPConfigsRequest) ([]wire.PodIPInfo, error) {
	var answer wire.IPConfigsResponse
	err := c.do(ctx, http.MethodPost, wire.RequestIPConfigsPath, r, &answer, &answer.Response)
	return answer.PodIPInfo, err
}

// Release detaches a container. A container without attachments is not an error.
func (c Client) Release(ctx context.Context, r wire.IPConfigsRequest) error {
	var answer wire.Response
	return c.do(ctx, http.MethodPost, wire.ReleaseIPConfigsPath, r, &answer, &answer)
}

// Endpoint returns the interfaces of a container.
func (c Client) Endpoint(ctx context.Context, containerID string) (wire.EndpointInfo, error) {
	var answer wire.GetEndpointResponse
	err := c.do(ctx, http.MethodGet, wire.EndpointsPath+containerID, nil, &answer, &answer.Response)
	return answer.EndpointInfo, err
}

// Collect releases attachments that the runtime has forgotten.
func (c Client) Collect(ctx context.Context, r wire.CollectRequest) error {
	var answer wire.Response
	return c.do(ctx, http.MethodPost, wire.CollectPath, r, &answer, &answer)
}

// Ready returns nil if pods can be attached.
func (c Client) Ready(ctx context.Context) error {
	var answer wire.Response
	return c.do(ctx, http.MethodGet, wire.HealthPath, nil, &answer, &answer)
}

// do sends one request and decodes the answer. result is the part of the answer with the
// code. Its errors are an *Error or an *UnreachableError.
func (c Client) do(ctx context.Context, method, path string, body, answer any, result *wire.Response) error {
	status, text, err := c.exchange(ctx, method, path, body)
	if err == nil && status == http.StatusNotFound {
		err = fmt.Errorf("it has no %s; is it of another release?", path)
	}
	if err == nil {
		err = json.Unmarshal(text, answer)
	}
	if err != nil {
		return &UnreachableError{Socket: c.socket(), Cause: err}
	}
	if result.ReturnCode != wire.Success {
		return &Error{Code: result.ReturnCode, Message: cmp.Or(result.Message, result.ReturnCode.String())}
	}
	return nil
}

func (c Client) exchange(ctx context.Context, method, path string, body any) (status int, text []byte, err error) {
	var reader io.Reader = http.NoBody
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return 0, nil, err
		}
		reader = bytes.NewReader(encoded)
	}
	// The host part of the URL has no meaning on a unix socket.
	request, err := http.NewRequestWithContext(ctx, method, "http://alioth-cnid"+path, reader)
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := cniapi.HTTPClient(c.socket()).Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	text, err = io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	return response.StatusCode, text, err
}

func (c Client) socket() string { return cmp.Or(c.Socket, DefaultSocket) }
