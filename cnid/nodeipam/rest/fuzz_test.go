// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package rest_test

import (
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/alioth-net/alioth/cnid/nodeipam/rest"
	"github.com/alioth-net/alioth/cnid/nodeipam/rest/resttest"
)

// FuzzRequests sends any method, path and body. There is always one answer with a known
// code, and success has the status 200.
func FuzzRequests(f *testing.F) {
	for _, seed := range [][3]string{
		{"POST", requests, plural},
		{"POST", request, singular},
		{"POST", releases, queued},
		{"POST", release, singular},
		{"GET", endpoint, ""},
		{"PATCH", endpoint, patched},
		{"DELETE", endpoint, ""},
		{"GET", "/network/endpoints/a", ""},
		{"POST", "/debug/ipaddresses", `{"IPConfigStateFilter":["Assigned"]}`},
		{"GET", "/debug/restdata", ""},
		{"POST", "/v0.1" + requests, with(`{"PodName":"web-0","PodNamespace":"blue"}`, `"web-0"`)},
		{"POST", "/v0.2/network/alioth/collect", `{"networkName":"n","validAttachments":[{"containerID":"a"}]}`},
		{"POST", requests, `{"infraContainerID":"\ud800","desiredIPAddresses":["fe80::1%eth0"]}`},
		{"PATCH", endpoint, `{"eth0":{"IPv4":[{"IP":"","Mask":"//8="}],"HostVethName":"v"},"eth1":null}`},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	quiet := rest.Config{Service: &resttest.Service{Devices: true, IPv6: true}, Node: nodeOf, Log: slog.New(slog.DiscardHandler)}
	handler := rest.New(quiet).Handler(rest.Place{Socket: true, Patience: time.Minute})
	f.Fuzz(func(t *testing.T, method, path, body string) {
		got := do(handler, method, path, body)
		if code := got.code(t); code == 0 && got.status != http.StatusOK {
			t.Errorf("%+v", got)
		}
	})
}
