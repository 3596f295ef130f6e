// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package rest_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alioth-net/alioth/cnid/nodeipam/answer"
	"github.com/alioth-net/alioth/cnid/nodeipam/endpoints"
	"github.com/alioth-net/alioth/cnid/nodeipam/rest"
	"github.com/alioth-net/alioth/cnid/nodeipam/rest/resttest"
	"github.com/alioth-net/alioth/cnid/nodeipam/wire"
)

const container = "3d3a4f61c3f0b6ad6a2e9dbd4a4f0b9bb5c8f1c3a2d4e6f8091a2b3c4d5e6f70"

var node = answer.Node{
	Host:  wire.HostIPInfo{Gateway: "198.51.100.1", PrimaryIP: "198.51.100.9", Subnet: "198.51.100.0/24"},
	Infra: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")},
}

func nodeOf() answer.Node { return node }

// rig is a server in front of a service in memory.
type rig struct {
	service *resttest.Service
	store   *endpoints.Store
	server  *rest.Server
	handler http.Handler
}

func newRig(t testing.TB, service *resttest.Service) *rig {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	store, err := endpoints.Open(filepath.Join(t.TempDir(), "endpoints"), log)
	if err != nil {
		t.Fatal(err)
	}
	server := rest.New(rest.Config{Service: service, Endpoints: store, Node: nodeOf, Log: log})
	handler := server.Handler(rest.Place{Socket: true, Patience: time.Minute})
	if _, fuzzing := t.(*testing.F); !fuzzing {
		handler = newContract(t).guard(handler)
	}
	return &rig{service, store, server, handler}
}

// reply has the parts of an answer that tests compare.
type reply struct {
	status int
	name   string
	allow  string
	body   string
}

func (r *rig) do(method, path, body string) reply { return do(r.handler, method, path, body) }

func do(handler http.Handler, method, path, body string) reply {
	recorder := httptest.NewRecorder()
	request := httptest.NewRequest(http.MethodPost, "http://localhost:10090/", strings.NewReader(body))
	request.Header.Set("Authorization", "Bearer proof")
	request.Method, request.URL.Path = method, path // as they are, also if no client could send them
	handler.ServeHTTP(recorder, request)
	return reply{recorder.Code, recorder.Header().Get("Cns_return_code"), recorder.Header().Get("Allow"), recorder.Body.String()}
}

// code returns the code in an answer, whatever its place. It fails if the answer is not exactly
// one JSON value with one known code.
func (r reply) code(t testing.TB) wire.ReturnCode {
	t.Helper()
	var shapes struct {
		ReturnCode *int
		Response   *struct{ ReturnCode *int }
	}
	decoder := json.NewDecoder(strings.NewReader(r.body))
	if err := decoder.Decode(&shapes); err != nil {
		t.Fatalf("%v: %q", err, r.body)
	}
	if decoder.More() {
		t.Fatalf("more than one answer: %q", r.body)
	}
	var found []int
	if shapes.ReturnCode != nil {
		found = append(found, *shapes.ReturnCode)
	}
	if shapes.Response != nil && shapes.Response.ReturnCode != nil {
		found = append(found, *shapes.Response.ReturnCode)
	}
	if len(found) == 0 || found[0] != found[len(found)-1] {
		t.Fatalf("codes %v in %q", found, r.body)
	}
	code := wire.ReturnCode(found[0])
	if !slices.Contains(wire.Codes(), code) || code.String() != r.name {
		t.Fatalf("code %d with the name %q in the header", code, r.name)
	}
	return code
}
