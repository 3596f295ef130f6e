// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/alioth-net/alioth/cnid/nodeipam/wire"
)

// refusal is the error of a request that does not reach the service.
type refusal struct {
	status int
	code   wire.ReturnCode
	reason string
}

func (e *refusal) Error() string { return e.reason }

// invalid refuses a value. The request as such is well-formed, so the status is 200.
func invalid(code wire.ReturnCode, err error) error {
	return &refusal{http.StatusOK, code, err.Error()}
}

// classify returns the answer to an error. Code 99 and its prefix go together, so that a client
// can tell by either that the error will pass.
func classify(err error, unless wire.ReturnCode) (status int, r wire.Response) {
	var notReady *NotReady
	var failure *Failure
	var refused *refusal
	switch {
	case errors.As(err, &refused):
		return refused.status, wire.Response{ReturnCode: refused.code, Message: refused.reason}
	case errors.As(err, &notReady), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return http.StatusOK, wire.Response{ReturnCode: wire.UnexpectedError, Message: prefixed(err.Error())}
	case errors.As(err, &failure) && permanent(failure.Code):
		return http.StatusOK, wire.Response{ReturnCode: failure.Code, Message: unprefixed(err.Error())}
	}
	return http.StatusOK, wire.Response{ReturnCode: unless, Message: unprefixed(err.Error())}
}

// permanent reports whether a code tells that asking again does not help.
func permanent(code wire.ReturnCode) bool {
	return code != wire.Success && code != wire.UnexpectedError && code.String() != wire.ReturnCode(-1).String()
}

// prefixed puts the prefix at the beginning, where the kubelet looks for it, also if
// context was added before it.
func prefixed(text string) string { return wire.NotReadyPrefix + unprefixed(text) }

func unprefixed(text string) string { return strings.ReplaceAll(text, wire.NotReadyPrefix, "") }
