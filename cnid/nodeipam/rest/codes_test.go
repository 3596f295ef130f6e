// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package rest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/cnid/nodeipam/rest"
	"github.com/alioth-net/alioth/cnid/nodeipam/rest/resttest"
	"github.com/alioth-net/alioth/cnid/nodeipam/wire"
)

const (
	requests = "/network/requestipconfigs"
	request  = "/network/requestipconfig"
	releases = "/network/releaseipconfigs"
	release  = "/network/releaseipconfig"
	endpoint = "/network/endpoints/" + container
)

// with returns the plural request with another text.
func with(old, text string) string { return strings.Replace(plural, old, text, 1) }

func TestRESTCodes_MalformedRequests_Documented(t *testing.T) {
	const pod = `{"PodName":"web-0","PodNamespace":"blue"}`
	for _, tc := range []struct {
		name               string
		method, path, body string
		status             int
		code               wire.ReturnCode
	}{
		{"no JSON", "POST", requests, "hello", 400, 23},
		{"half of it", "POST", requests, plural[:50], 400, 23},
		{"nothing", "POST", requests, "", 400, 23},
		{"two bodies", "POST", requests, plural + plural, 400, 23},
		{"a list", "POST", requests, "[]", 400, 23},
		{"a number for a text", "POST", requests, with(`"3d3a4f61-eth0"`, "7"), 400, 23},
		{"a number for a text, singular", "POST", request, `{"InfraContainerID":7}`, 400, 23},
		{"a number for a text of a release", "POST", releases, `{"infraContainerID":7}`, 400, 23},
		{"the same, singular", "POST", release, `{"InfraContainerID":7}`, 400, 23},
		{"too large", "POST", requests, plural + strings.Repeat(" ", 64<<10), 413, 23},
		{"too large a release", "POST", releases, strings.Repeat("x", 64<<10+1), 413, 23},
		{"null", "POST", requests, "null", 200, 2},
		{"no container", "POST", requests, with(container, ""), 200, 2},
		{"a path as container", "POST", requests, with(container, "../../etc"), 200, 2},
		{"a long container ID", "POST", requests, with(container, strings.Repeat("a", 129)), 200, 2},
		{"a path as interface", "POST", requests, with(`"ifname":"eth0"`, `"ifname":"../x"`), 200, 2},
		{"a long podInterfaceID", "POST", requests, with("3d3a4f61-eth0", strings.Repeat("a", 257)), 200, 2},
		{"a line feed in it", "POST", requests, with("3d3a4f61-eth0", `a\nb`), 200, 2},
		{"no address desired", "POST", requests, with(`"desiredIPAddresses":null`, `"desiredIPAddresses":["x"]`), 200, 2},
		{"17 addresses desired", "POST", requests, with(`"desiredIPAddresses":null`, `"desiredIPAddresses":["192.0.2.1"`+strings.Repeat(`,"192.0.2.1"`, 16)+`]`), 200, 2},
		{"a namespace without a path", "POST", requests, with("{", `{"netnsPath":"run/netns/x",`), 200, 2},
		{"a long name of a network", "POST", requests, with("{", `{"networkName":"`+strings.Repeat("n", 254)+`",`), 200, 2},
		{"a container ID of a release", "POST", releases, `{"infraContainerID":"a/b"}`, 200, 2},
		{"no pod", "POST", requests, with(pod, "null"), 200, 33},
		{"an absent pod", "POST", requests, with(`"orchestratorContext":`+pod+`,`, ""), 200, 33},
		{"an empty pod", "POST", requests, with(pod, "{}"), 200, 33},
		{"no pod, singular", "POST", request, `{"InfraContainerID":"c"}`, 200, 33},
		{"a release of nothing", "POST", releases, `{}`, 200, 33},
		{"the same, singular", "POST", release, `{}`, 200, 33},
		{"a pod without a namespace", "POST", requests, with(pod, `{"PodName":"web-0"}`), 200, 34},
		{"a text as pod", "POST", requests, with(pod, `"web-0"`), 200, 34},
		{"a list as pod", "POST", requests, with(pod, `[1]`), 200, 34},
		{"a number as name", "POST", requests, with(pod, `{"PodName":1,"PodNamespace":"blue"}`), 200, 34},
		{"a path as name", "POST", requests, with(pod, `{"PodName":"../x","PodNamespace":"blue"}`), 200, 34},
		{"a strange UID", "POST", requests, with(pod, `{"PodName":"web-0","PodNamespace":"blue","PodUID":"a\nb"}`), 200, 34},
		{"a release with a strange pod alone", "POST", releases, `{"orchestratorContext":7}`, 200, 34},
		{"a wrong method", "GET", requests, "", 405, 21},
		{"another", "DELETE", release, "", 405, 21},
		{"a method of nobody", "BREW", endpoint, "", 405, 21},
		{"an endpoint is not made", "POST", endpoint, "{}", 405, 21},
		{"no path", "POST", "/", plural, 404, 43},
		{"an unknown path", "POST", "/network/requestIPAddress", plural, 404, 43},
		{"an unknown version", "POST", "/v0.3" + requests, plural, 404, 43},
		{"two versions", "POST", "/v0.1/v0.2" + requests, plural, 404, 43},
		{"a path that is not clean", "POST", "/network//requestipconfigs", plural, 404, 43},
		{"a path with dots", "POST", "/network/../network/requestipconfigs", plural, 404, 43},
		{"a part of an endpoint", "GET", endpoint + "/eth0", "", 404, 43},
		{"an endpoint without ID", "GET", "/network/endpoints/", "", 200, 2},
		{"an endpoint with dots", "GET", "/network/endpoints/..", "", 200, 2},
		{"a short ID", "GET", "/network/endpoints/a", "", 200, 14},
		{"a short ID patched", "PATCH", "/network/endpoints/a", patched, 200, 18},
		{"a short ID deleted", "DELETE", "/network/endpoints/a", "", 200, 14},
		{"a patch that is none", "PATCH", endpoint, "[]", 400, 23},
		{"a patch of the form before IfnameToIPMap", "PATCH", endpoint, `{"hnsEndpointID":"","hostVethName":"v"}`, 400, 23},
		{"an empty patch", "PATCH", endpoint, "{}", 200, 23},
		{"a patch with null", "PATCH", endpoint, `{"eth0":null}`, 200, 23},
		{"a patch that adds nothing", "PATCH", endpoint, `{"eth0":{}}`, 200, 23},
		{"a patch of a strange interface", "PATCH", endpoint, `{"../x":{"HostVethName":"v"}}`, 200, 23},
		{"a patch without a name", "PATCH", endpoint, `{"":{"HostVethName":"v"}}`, 200, 23},
		{"GC of no network", "POST", "/network/alioth/collect", `{}`, 200, 2},
		{"GC of what is none", "POST", "/network/alioth/collect", `[]`, 400, 23},
		{"a filter that is none", "POST", "/debug/ipaddresses", `[]`, 400, 23},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, &resttest.Service{})
			got := r.do(tc.method, tc.path, tc.body)
			if code := got.code(t); got.status != tc.status || code != tc.code {
				t.Errorf("status %d and code %d, want %d and %d: %s", got.status, code, tc.status, tc.code, got.body)
			}
			if strings.Contains(got.body, "network is not ready") {
				t.Errorf("asking again would help: %s", got.body)
			}
			if len(r.service.Requests) != 0 {
				t.Errorf("the service was asked: %+v", r.service.Requests)
			}
		})
	}
}

func TestRESTRequest_LooseForms_Tolerated(t *testing.T) {
	for name, exchange := range map[string][2]string{
		"unknown fields":           {requests, with("{", `{"aFieldOfTomorrow":{"a":[1]},`)},
		"other case of names":      {requests, strings.ToUpper(plural[:strings.Index(plural, ":")]) + plural[strings.Index(plural, ":"):]},
		"lower case of the pod":    {requests, with(`"PodName":"web-0","PodNamespace":"blue"`, `"podName":"web-0","podNamespace":"blue","PodInfraContainerID":"x"`)},
		"no line feed":             {requests, strings.TrimSpace(plural)},
		"almost too large":         {requests, plural + strings.Repeat(" ", 64<<10-len(plural))},
		"a release without a pod":  {releases, `{"infraContainerID":"a"}`},
		"a release by its name":    {releases, `{"podInterfaceID":"3d3a4f61-eth0"}`},
		"a release by a pod alone": {release, `{"OrchestratorContext":{"PodName":"web-0","PodNamespace":"blue"}}`},
	} {
		if got := newRig(t, &resttest.Service{}).do("POST", exchange[0], exchange[1]); got.code(t) != 0 || got.status != http.StatusOK {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestRESTMethods_Unsupported_RefusedWithReason(t *testing.T) {
	r := newRig(t, &resttest.Service{})
	if got := r.do("POST", endpoint, ""); got.allow != "DELETE, GET, PATCH" {
		t.Errorf("allowed: %q", got.allow)
	}
	for path, why := range wire.Refused() {
		for _, method := range []string{"GET", "POST"} {
			if got := r.do(method, path, ""); got.status != http.StatusNotFound || got.code(t) != 43 || !strings.Contains(got.body, why) {
				t.Errorf("%s %s: %+v", method, path, got)
			}
		}
	}
}

func TestRESTSingularPath_Request_OneAddress(t *testing.T) {
	for name, service := range map[string]*resttest.Service{"a device": {Devices: true}, "two families": {IPv6: true}} {
		r := newRig(t, service)
		if got := r.do("POST", request, singular); got.code(t) != 23 || got.status != http.StatusOK || !strings.Contains(got.body, requests) {
			t.Errorf("%s: %+v", name, got)
		}
		if got := r.do("POST", requests, plural); got.code(t) != 0 {
			t.Errorf("%s, then many: %+v", name, got)
		}
	}
}

func TestRESTCodes_ServiceErrors_Mapped(t *testing.T) {
	notReady := &rest.NotReady{Reason: "no decision about this pod"}
	for _, tc := range []struct {
		name string
		err  error
		code wire.ReturnCode
		text string
	}{
		{"not ready", notReady, 99, "network is not ready - no decision about this pod"},
		{"not ready, with context", fmt.Errorf("pod blue/web-0: %w", notReady), 99, "network is not ready - pod blue/web-0: no decision about this pod"},
		{"a deadline", fmt.Errorf("wait: %w", context.DeadlineExceeded), 99, "network is not ready - wait: context deadline exceeded"},
		{"a cancellation", context.Canceled, 99, "network is not ready - context canceled"},
		{"gone", &rest.Failure{Code: wire.NotFound, Reason: "pod is gone"}, 14, "pod is gone"},
		{"another address", &rest.Failure{Code: wire.AddressUnavailable, Reason: "it has 192.0.2.7"}, 15, "it has 192.0.2.7"},
		{"elsewhere", fmt.Errorf("pod a/b: %w", &rest.Failure{Code: wire.InconsistentIPConfigState, Reason: "attached"}), 29, "pod a/b: attached"},
		{"a device", &rest.Failure{Code: wire.FailedToAllocateBackendConfig, Reason: "no device"}, 44, "no device"},
		{"a permanent error that looks like the other", &rest.Failure{Code: wire.NotFound, Reason: "network is not ready - gone"}, 14, "gone"},
		{"a failure with the code of success", &rest.Failure{Code: wire.Success, Reason: "x"}, 32, "x"},
		{"a failure with 99", &rest.Failure{Code: wire.UnexpectedError, Reason: "x"}, 32, "x"},
		{"a failure with a code of nobody", &rest.Failure{Code: 77, Reason: "x"}, 32, "x"},
		{"any other", errors.New("subnet does not exist"), 32, "subnet does not exist"},
	} {
		service := &resttest.Service{Before: func(context.Context, string) error { return tc.err }}
		r := newRig(t, service)
		for path, body := range map[string]string{requests: plural, request: singular} {
			got := r.do("POST", path, body)
			if code := got.code(t); code != tc.code || got.status != http.StatusOK || !strings.Contains(got.body, `"Message":"`+tc.text+`"`) {
				t.Errorf("%s, %s: %+v", tc.name, path, got)
			}
		}
	}
}

func TestRESTCodes_OtherPaths_OwnDefault(t *testing.T) {
	r := newRig(t, &resttest.Service{Before: func(context.Context, string) error { return errors.New("the disk is full") }})
	for _, tc := range []struct {
		method, path, body string
		code               wire.ReturnCode
	}{
		{"POST", releases, plural, 29},
		{"POST", release, singular, 29},
		{"GET", endpoint, "", 29},
		{"PATCH", endpoint, patched, 29},
		{"DELETE", endpoint, "", 29},
		{"POST", "/debug/ipaddresses", "{}", 29},
		{"GET", "/debug/podcontext", "", 29},
		{"GET", "/debug/restdata", "", 29},
		{"GET", "/network/health", "", 3},
		{"POST", "/network/alioth/collect", `{"networkName":"n"}`, 29},
	} {
		if got := r.do(tc.method, tc.path, tc.body); got.code(t) != tc.code || !strings.Contains(got.body, "the disk is full") {
			t.Errorf("%s %s: %+v", tc.method, tc.path, got)
		}
	}
}

// TestRESTCodes_EachOperation_OnlyDocumentedCodes asks every operation in every way that this
// package's tests know.
func TestRESTCodes_EachOperation_OnlyDocumentedCodes(t *testing.T) {
	failures := []error{nil, &rest.NotReady{}, errors.New("any")}
	bodies := []string{"", "{}", "[]", plural, singular, queued, patched, `{"networkName":"n"}`, with(container, "a/b"), `{"eth0":null}`}
	for _, op := range wire.Operations() {
		for _, err := range failures {
			r := newRig(t, &resttest.Service{Devices: true, Before: func(context.Context, string) error { return err }})
			for _, body := range bodies {
				for _, id := range []string{container, "..", "a"} {
					path := strings.Replace(op.Path, wire.ContainerIDVariable, id, 1)
					code := r.do(op.Method, path, body).code(t)
					if !slices.Contains(op.Codes, code) && !slices.Contains(wire.CommonCodes(), code) {
						t.Errorf("%s %s has the code %d for %q", op.Method, path, code, body)
					}
				}
			}
		}
	}
}

func TestRESTEndpoints_StoreMissing_NothingKept(t *testing.T) {
	service := &resttest.Service{}
	server := rest.New(rest.Config{Service: service, Node: nodeOf, Log: slog.New(slog.DiscardHandler)})
	r := &rig{service: service, handler: server.Handler(rest.Place{Socket: true, Patience: 1 << 40})}
	for _, tc := range []struct {
		method, path, body string
		code               wire.ReturnCode
	}{
		{"POST", requests, plural, 0}, {"PATCH", endpoint, patched, 40}, {"GET", endpoint, "", 0}, {"DELETE", endpoint, "", 0}, {"POST", releases, plural, 0},
	} {
		if got := r.do(tc.method, tc.path, tc.body); got.code(t) != tc.code {
			t.Errorf("%s %s: %+v", tc.method, tc.path, got)
		}
	}
}
