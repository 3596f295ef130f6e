// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alioth-net/alioth/cnid/nodeipam/answer"
	"github.com/alioth-net/alioth/cnid/nodeipam/client"
	"github.com/alioth-net/alioth/cnid/nodeipam/rest"
	"github.com/alioth-net/alioth/cnid/nodeipam/rest/resttest"
	"github.com/alioth-net/alioth/cnid/nodeipam/wire"
)

// serve answers at a socket.
func serve(t *testing.T, handler http.Handler) client.Client {
	t.Helper()
	dir, err := os.MkdirTemp("", "alioth-client") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	c := client.Client{Socket: filepath.Join(dir, "s")}
	if handler == nil {
		return c
	}
	listener, err := net.Listen("unix", c.Socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return c
}

func api(service rest.Service) http.Handler {
	return rest.New(rest.Config{Service: service, Node: func() answer.Node { return answer.Node{} }, Log: slog.New(slog.DiscardHandler)}).
		Handler(rest.Place{Socket: true, Patience: time.Minute})
}

var request = wire.IPConfigsRequest{InfraContainerID: "a", Ifname: "eth0", OrchestratorContext: []byte(`{"PodName":"p","PodNamespace":"n"}`)}

// all asks everything once, and returns the errors by name.
func all(ctx context.Context, c client.Client) map[string]error {
	errs := map[string]error{}
	_, errs["request"] = c.Request(ctx, request)
	_, errs["endpoint"] = c.Endpoint(ctx, "a")
	errs["release"] = c.Release(ctx, request)
	errs["collect"] = c.Collect(ctx, wire.CollectRequest{NetworkName: "n"})
	errs["ready"] = c.Ready(ctx)
	return errs
}

func TestIPAMClient_Service_RequestAnswered(t *testing.T) {
	c := serve(t, api(&resttest.Service{}))
	for name, err := range all(t.Context(), c) {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	entries, err := c.Request(t.Context(), request)
	if err != nil || len(entries) != 1 || entries[0].PodIPConfig.IPAddress != "192.0.2.2" {
		t.Errorf("%+v, %v", entries, err)
	}
	if info, err := c.Endpoint(t.Context(), "a"); err != nil || info.PodName != "p" || len(info.IfnameToIPMap["eth0"].IPv4) != 1 {
		t.Errorf("%+v, %v", info, err)
	}
}

func TestIPAMClient_ServiceError_CodeKept(t *testing.T) {
	for _, tc := range []struct {
		err    error
		passes bool
		text   string
	}{
		{&rest.NotReady{Reason: "wait"}, true, "network is not ready - wait"},
		{errors.New("never"), false, "never"},
		{errors.New(""), false, "2"}, // without a message its code is better than nothing
	} {
		c := serve(t, api(&resttest.Service{Before: func(context.Context, string) error { return tc.err }}))
		for name, err := range all(t.Context(), c) {
			var answered *client.Error
			if !errors.As(err, &answered) || answered.Passes() != tc.passes || tc.text != "2" && err.Error() != tc.text || err.Error() == "" {
				t.Errorf("%s: %v, want %q", name, err, tc.text)
			}
		}
	}
}

func TestIPAMClient_ForeignAnswer_Unreachable(t *testing.T) {
	text := func(status int, body string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		})
	}
	for name, handler := range map[string]http.Handler{
		"nobody":          nil,
		"another server":  text(http.StatusNotFound, "404 page not found"),
		"an older daemon": text(http.StatusNotFound, `{"ReturnCode":43,"Message":"there is no such path","Response":{"ReturnCode":43}}`),
		"no JSON":         text(http.StatusOK, "hello"),
		"half":            text(http.StatusOK, `{"ReturnCode":0`),
		"too much":        text(http.StatusOK, `{"ReturnCode":0,"Message":"`+strings.Repeat("x", 1<<20)+`"}`),
		"it ends":         http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }),
	} {
		c := serve(t, handler)
		for what, err := range all(t.Context(), c) {
			var away *client.UnreachableError
			if !errors.As(err, &away) || !strings.Contains(err.Error(), c.Socket) {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
	}
}

func TestIPAMClient_ContextEnds_WaitEnds(t *testing.T) {
	c := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	for what, err := range all(ctx, c) {
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
