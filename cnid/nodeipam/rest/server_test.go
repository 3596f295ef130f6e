// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package rest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/cnid/nodeipam/rest"
	"github.com/alioth-net/alioth/cnid/nodeipam/rest/resttest"
	"github.com/alioth-net/alioth/cnid/nodeipam/wire"
)

func TestRESTServer_TCP_OnlyPublicPathsServed(t *testing.T) {
	r := newRig(t, &resttest.Service{})
	tcp := r.server.Handler(rest.Place{Token: "proof", Patience: rest.TCPPatience})
	for _, op := range wire.Operations() {
		path := strings.Replace(op.Path, wire.ContainerIDVariable, container, 1)
		if got := r.do(op.Method, path, plural); got.status == http.StatusNotFound {
			t.Errorf("%s %s at the socket: %+v", op.Method, path, got)
		}
		if got := do(tcp, op.Method, path, plural); (got.status == http.StatusNotFound) != op.Socket {
			t.Errorf("%s %s over TCP: %+v", op.Method, path, got)
		}
	}
}

func TestRESTServer_DebugViews_Returned(t *testing.T) {
	r := newRig(t, &resttest.Service{Devices: true})
	if got := r.do("POST", requests, plural); got.code(t) != 0 {
		t.Fatalf("%+v", got)
	}
	if got := r.do("POST", requests, strings.Replace(with(container, "b"), "3d3a4f61-eth0", "", 1)); got.code(t) != 0 {
		t.Fatalf("%+v", got)
	}
	who := wire.PodInfo{PodName: "web-0", PodNamespace: "blue", PodInfraContainerID: container, PodInterfaceID: "3d3a4f61-eth0"}
	first := wire.IPConfigurationStatus{
		State: "Assigned", ID: "id-2", IPAddress: "192.0.2.2", LastStateTransition: "2026-01-02T03:04:05Z", NCID: "nc-infra", PodInfo: who,
	}
	var list wire.GetIPAddressStatusResponse
	for body, want := range map[string]int{
		`{"IPConfigStateFilter":["Assigned"]}`: 4, `{}`: 4, `{"IPConfigStateFilter":["Available","PendingRelease"]}`: 0,
	} {
		answer := r.do("POST", "/debug/ipaddresses", body)
		if err := json.Unmarshal([]byte(answer.body), &list); err != nil || len(list.IPConfigurationStatus) != want {
			t.Errorf("%s: %v, %s", body, err, answer.body)
		}
		if want > 0 && list.IPConfigurationStatus[0] != first {
			t.Errorf("(-want +got):\n%s", cmp.Diff(first, list.IPConfigurationStatus[0]))
		}
	}
	context := map[string][]string{"3d3a4f61-eth0": {"id-2", "tenant-2"}, "b-eth0": {"id-3", "tenant-3"}}
	var pods wire.GetPodContextResponse
	if err := json.Unmarshal([]byte(r.do("GET", "/debug/podcontext", "").body), &pods); err != nil || !cmp.Equal(pods.PodContext, context) {
		t.Errorf("%v, %v", err, pods)
	}
	var all wire.GetHTTPServiceDataResponse
	err := json.Unmarshal([]byte(r.do("GET", "/debug/restdata", "").body), &all)
	if data := all.HTTPRestServiceData; err != nil || !cmp.Equal(data.PodIPIDByPodInterfaceKey, context) || len(data.PodIPConfigState) != 4 ||
		data.PodIPConfigState["id-2"] != first {
		t.Errorf("%v, %v", err, all)
	}
	r.service.SetState("eth0", wire.PendingRelease)
	if got := r.do("GET", endpoint, ""); got.code(t) != 14 {
		t.Errorf("the endpoint of a container that is being released: %+v", got)
	}
}

func TestRESTServer_GCAndHealth_ReachService(t *testing.T) {
	r := newRig(t, &resttest.Service{})
	if got := r.do("GET", "/network/health", ""); got.code(t) != 0 {
		t.Errorf("%+v", got)
	}
	got := r.do("POST", "/network/alioth/collect", `{"networkName":"n","validAttachments":[{"containerID":"a","ifname":"eth0"}]}`)
	want := [][]rest.Key{{{ContainerID: "n"}, {ContainerID: "a", IfName: "eth0"}}}
	if diff := cmp.Diff(want, r.service.Collected); got.code(t) != 0 || diff != "" {
		t.Errorf("%+v\n%s", got, diff)
	}
}

func TestRESTServer_AliothFields_Arrive(t *testing.T) {
	r := newRig(t, &resttest.Service{})
	body := strings.Replace(with("{", `{"networkName":"infra","netnsPath":"/run/netns/x",`), `"PodNamespace":"blue"`, `"PodNamespace":"blue","PodUID":"u-1"`, 1)
	if got := r.do("POST", requests, strings.Replace(body, "null", `["192.0.2.7","::ffff:192.0.2.8"]`, 1)); got.code(t) != 0 {
		t.Fatalf("%+v", got)
	}
	got := r.service.Requests[0]
	if got.Network != "infra" || got.NetnsPath != "/run/netns/x" || got.Pod.UID != "u-1" || fmt.Sprint(got.Desired) != "[192.0.2.7 192.0.2.8]" {
		t.Errorf("%+v", got)
	}
}

func TestRESTServer_TwentyParallelRequesters_AllAnswered(t *testing.T) {
	r := newRig(t, &resttest.Service{})
	const requesters, rounds = 20, 50
	var mu sync.Mutex
	holders := map[string]string{}
	var wg sync.WaitGroup
	for i := range requesters {
		wg.Go(func() {
			for round := range rounds {
				id := fmt.Sprintf("c%d-%d", i, round)
				got := decoded[clientAnswers](t, r.do("POST", requests, with(container, id)))
				address := got.PodIPInfo[0].PodIPConfig.IPAddress
				mu.Lock()
				if other, ok := holders[address]; ok {
					t.Errorf("%s and %s have %s", id, other, address)
				}
				holders[address] = id
				mu.Unlock()
				if round%10 == 0 { // each waits for the disk
					if patched := r.do("PATCH", "/network/endpoints/"+id, patched); patched.code(t) != 0 {
						t.Errorf("%+v", patched)
					}
				}
				mu.Lock()
				delete(holders, address)
				mu.Unlock()
				if released := r.do("POST", releases, with(container, id)); released.code(t) != 0 {
					t.Errorf("%+v", released)
				}
			}
		})
	}
	wg.Wait()
	if left, err := r.service.Attachments(t.Context(), ""); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if len(r.service.Requests) != requesters*rounds {
		t.Errorf("%d requests", len(r.service.Requests))
	}
}

func TestRESTServer_TwentyRequestersOneKey_SameAddress(t *testing.T) {
	r := newRig(t, &resttest.Service{})
	addresses := make([]string, 20)
	var wg sync.WaitGroup
	for i := range addresses {
		wg.Go(func() {
			addresses[i] = decoded[clientAnswers](t, r.do("POST", requests, plural)).PodIPInfo[0].PodIPConfig.IPAddress
		})
	}
	wg.Wait()
	if slices.Sort(addresses); addresses[0] != addresses[19] || addresses[0] != "192.0.2.2" {
		t.Errorf("%v", addresses)
	}
}

func TestRESTServer_ServiceWaits_ReasonReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, &resttest.Service{Before: func(ctx context.Context, _ string) error {
			<-ctx.Done()
			return &rest.NotReady{Reason: "subnet net1 is full"}
		}})
		if got := r.do("POST", requests, plural); got.code(t) != 99 || !strings.Contains(got.body, `"network is not ready - subnet net1 is full"`) {
			t.Errorf("%+v", got)
		}
	})
}

func TestRESTServer_ServiceHangs_ClientAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := make(chan struct{})
		r := newRig(t, &resttest.Service{Before: func(context.Context, string) error { <-hangs; return nil }})
		tcp := r.server.Handler(rest.Place{Token: "proof", Patience: rest.TCPPatience})
		begin := time.Now() // the time of the bubble, which passes when all wait
		got := do(tcp, "POST", requests, plural)
		if waited := time.Since(begin); got.code(t) != 99 || waited >= 5*time.Second {
			t.Errorf("after %s, when clients of CNS have given up: %+v", waited, got)
		}
		close(hangs)
		synctest.Wait()
		// The request was carried out all the same, and the next one finds it.
		if left, err := r.service.Attachments(t.Context(), container); err != nil || len(left) != 1 {
			t.Errorf("%v, %v", left, err)
		}
	})
}

func TestRESTServer_Panic_ErrorAnswered(t *testing.T) {
	r := newRig(t, &resttest.Service{Before: func(context.Context, string) error { panic("a bug") }})
	if got := r.do("POST", requests, plural); got.code(t) != 32 || strings.Contains(got.body, "a bug") {
		t.Errorf("%+v", got)
	}
}

func TestRESTServer_ReleaseFails_NoSuccessReturned(t *testing.T) {
	fail := true
	r := newRig(t, &resttest.Service{Before: func(_ context.Context, method string) error {
		if method == "Release" && fail {
			return errors.New("the journal can't be written")
		}
		return nil
	}})
	if got := r.do("POST", requests, plural); got.code(t) != 0 {
		t.Fatalf("%+v", got)
	}
	if got := r.do("POST", releases, plural); got.code(t) != 29 {
		t.Errorf("%+v", got)
	}
	if err := r.server.Release(t.Context(), rest.Key{ContainerID: container}); err == nil {
		t.Error("no error")
	}
	fail = false
	if err := r.server.Release(t.Context(), rest.Key{ContainerID: container}); err != nil {
		t.Error(err)
	}
}

func TestRESTRelease_EachKey_AttachmentMatched(t *testing.T) {
	eth0 := rest.Key{ContainerID: "a", IfName: "eth0", PodInterfaceID: "a-eth0"}
	for _, tc := range []struct {
		key  rest.Key
		want bool
	}{
		{eth0, true},
		{rest.Key{ContainerID: "a", IfName: "eth0"}, true},
		{rest.Key{ContainerID: "a", IfName: "eth0", PodInterfaceID: "of another client"}, true},
		{rest.Key{ContainerID: "a", PodInterfaceID: "a-eth0"}, true},
		{rest.Key{PodInterfaceID: "a-eth0"}, true},
		{rest.Key{ContainerID: "a"}, true},
		{rest.Key{}, false},
		{rest.Key{IfName: "eth0"}, false},
		{rest.Key{ContainerID: "b"}, false},
		{rest.Key{ContainerID: "b", PodInterfaceID: "a-eth0"}, false},
		{rest.Key{ContainerID: "a", IfName: "net1", PodInterfaceID: "a-eth0"}, false},
		{rest.Key{ContainerID: "a", PodInterfaceID: "a-net1"}, false},
		{rest.Key{PodInterfaceID: "a-net1"}, false},
	} {
		if got := tc.key.Names(eth0); got != tc.want {
			t.Errorf("%+v: %t", tc.key, got)
		}
	}
}

// The runtime opens a forwarded port like any process of the node, but sends a tenant's text.
func TestRESTServer_TCPRequest_TokenRequired(t *testing.T) {
	service := &resttest.Service{}
	r := newRig(t, service)
	for _, tc := range []struct {
		name, token, header string
		served              bool
	}{
		{"the token", "proof", "Bearer proof", true},
		{"the scheme in small letters", "proof", "bearer proof", true},
		{"no header", "proof", "", false},
		{"another token", "proof", "Bearer wrong", false},
		{"a part of it", "proof", "Bearer proo", false},
		{"another scheme", "proof", "Basic proof", false},
		{"the token alone", "proof", "proof", false},
		{"an empty token", "proof", "Bearer ", false},
		{"a server without a token", "", "Bearer ", false},
	} {
		handler := newContract(t).guard(r.server.Handler(rest.Place{Token: tc.token, Patience: rest.TCPPatience}))
		for _, op := range wire.Operations() {
			path := strings.Replace(op.Path, wire.ContainerIDVariable, container, 1)
			request := httptest.NewRequestWithContext(t.Context(), op.Method, path, strings.NewReader(plural))
			if tc.header != "" {
				request.Header.Set("Authorization", tc.header)
			}
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, request)
			if (answer.Code == http.StatusUnauthorized) == tc.served || !tc.served && !strings.Contains(answer.Body.String(), wire.TokenFile) {
				t.Errorf("%s: %s %s is answered with %d: %s", tc.name, op.Method, path, answer.Code, answer.Body)
			}
		}
	}
}
