// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"
)

// oneDial lets one request at a time make a connection, so that the waiting requests share it.
// net/http makes a connection for each request that finds none, and closes all but one. A daemon
// has a stream for each kind and VPC. After the loss of its connection, it would load the API
// server with one handshake for each stream. Few handshakes end in time when all nodes do so.
type oneDial struct {
	next http.RoundTripper
	turn chan struct{}
}

// longestTurn limits how long others wait for a connection that is not made: after an outage of
// the network an older attempt may succeed later than a new one.
const longestTurn = 2 * time.Second

// newOneDial fits rest.Config.Wrap.
func newOneDial(next http.RoundTripper) http.RoundTripper {
	return oneDial{next: next, turn: make(chan struct{}, 1)}
}

// RoundTrip implements http.RoundTripper.
func (o oneDial) RoundTrip(request *http.Request) (*http.Response, error) {
	ctx := request.Context()
	select {
	case o.turn <- struct{}{}:
	case <-ctx.Done():
		if request.Body != nil {
			_ = request.Body.Close() // RoundTrip closes the body, also after an error
		}
		return nil, context.Cause(ctx)
	}
	done := sync.OnceFunc(func() { <-o.turn })
	defer done()
	defer time.AfterFunc(longestTurn, done).Stop()
	connected := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { done() }})
	return o.next.RoundTrip(request.WithContext(connected))
}
