// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeletapi

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
)

// Statuses of answers (gRPC, "Status codes and their use").
const (
	statusOK            = 0
	statusInvalid       = 3
	statusUnimplemented = 12
	statusInternal      = 13
)

// Method answers one request. send sends a message of the answer, and may be called often.
type Method func(ctx context.Context, message []byte, send func([]byte) error) error

// Server returns a server for methods by their path, as "/v1beta1.DevicePlugin/Allocate".
func Server(methods map[string]Method) *http.Server {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{Protocols: &protocols, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", contentType)
		status, err := answer(methods[r.URL.Path], w, r)
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", strconv.Itoa(status))
		if err != nil {
			w.Header().Set(http.TrailerPrefix+"Grpc-Message", url.PathEscape(err.Error()))
		}
	})}
}

// answer sends the messages of an answer, and returns its status.
func answer(method Method, w http.ResponseWriter, r *http.Request) (status int, err error) {
	if method == nil {
		return statusUnimplemented, errors.New("there is no such method")
	}
	body, err := readAll(r.Body)
	if err != nil {
		return statusInvalid, err
	}
	message, err := unprefixed(body)
	if err != nil {
		return statusInvalid, err
	}
	control := http.NewResponseController(w)
	send := func(message []byte) error {
		if _, err := w.Write(withPrefix(message)); err != nil {
			return err
		}
		return control.Flush()
	}
	if err := method(r.Context(), message, send); err != nil {
		return statusInternal, err
	}
	return statusOK, nil
}
