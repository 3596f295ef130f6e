// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net/http"

	"k8s.io/client-go/rest"
)

// Guard limits an HTTP server to users that may use it.
type Guard interface {
	// Protect returns a handler that lets only these users through to next, and the
	// configuration of TLS for the server of a component.
	Protect(api *rest.Config, component string, next http.Handler, log *slog.Logger) (http.Handler, *tls.Config, error)
}

// Garbage limits the garbage of the process.
type Garbage interface {
	// Limit sets a limit for the time until filled returns, and another limit afterwards.
	Limit(ctx context.Context, filled func(context.Context) error)
}
