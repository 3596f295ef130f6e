// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cmd/process/guard"
	"github.com/alioth-net/alioth/operator/claim"
	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/operator/operatortest"
)

// electing returns a configuration that takes part in an election.
func electing(namespace string) Config {
	cfg := testConfig()
	cfg.LeaderElect, cfg.Namespace = true, namespace
	return cfg
}

func (r *rig) leases() client.Client {
	r.t.Helper()
	scheme := runtime.NewScheme()
	if err := coordinationv1.AddToScheme(scheme); err != nil {
		r.t.Fatal(err)
	}
	c, err := client.New(r.config, client.Options{Scheme: scheme})
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

func (r *rig) leader(leases client.Client, lease *coordinationv1.Lease, want func(holder string) bool) {
	r.t.Helper()
	r.eventually(func() error {
		if err := leases.Get(r.t.Context(), client.ObjectKeyFromObject(lease), lease); err != nil {
			return err
		}
		if holder := lease.Spec.HolderIdentity; holder == nil || !want(*holder) {
			return fmt.Errorf("the lease is held by %v", holder)
		}
		return nil
	})
}

func TestTerm_LeaseLost_EndsProcessStays(t *testing.T) {
	r := newRig(t)
	r.create(newNamespace("lease", ""))
	r.operate(electing("lease"))
	leases := r.leases()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "lease", Name: leaseName}}
	r.leader(leases, lease, func(holder string) bool { return holder != "" })
	vpc := newVPC("lease-1", nil, "10.0.0.0/16")
	r.create(vpc)
	sees(r, vpc, vpcReady(v1alpha1.ReadyReason))

	// A rival takes the lease and does not renew it.
	r.eventually(func() error {
		r.leader(leases, lease, func(string) bool { return true })
		rival, now, seconds := "rival", metav1.NewMicroTime(time.Now()), int32(1)
		lease.Spec.HolderIdentity, lease.Spec.RenewTime, lease.Spec.LeaseDurationSeconds = &rival, &now, &seconds
		return leases.Update(t.Context(), lease)
	})
	r.leader(leases, lease, func(holder string) bool { return holder != "rival" && holder != "" })
	after := newVPC("lease-2", nil, "10.0.0.0/16")
	r.create(after)
	sees(r, after, vpcReady(v1alpha1.ReadyReason))
}

func TestSecondOperator_FirstEnds_TakesOverAtOnce(t *testing.T) {
	r := newRig(t)
	r.create(newNamespace("takeover", ""))
	stop := r.operate(electing("takeover"))
	leases := r.leases()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "takeover", Name: leaseName}}
	var first string
	r.leader(leases, lease, func(holder string) bool { first = holder; return holder != "" })
	r.operate(electing("takeover"))
	stop()
	r.leader(leases, lease, func(holder string) bool { return holder != "" && holder != first })
	vpc := newVPC("takeover", nil, "10.0.0.0/16")
	r.create(vpc)
	sees(r, vpc, vpcReady(v1alpha1.ReadyReason))
}

func TestHealthAndMetrics_Loopback_Served(t *testing.T) {
	r := newRig(t)
	cfg := testConfig()
	cfg.HealthAddr, cfg.MetricsAddr = freeAddr(t), freeAddr(t)
	r.operate(cfg)
	get := func(url string) (int, string) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return 0, err.Error()
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			return 0, err.Error()
		}
		return response.StatusCode, string(body)
	}
	for _, url := range []string{"http://" + cfg.HealthAddr + "/healthz", "http://" + cfg.HealthAddr + "/readyz"} {
		r.eventually(func() error {
			if code, body := get(url); code != http.StatusOK {
				return fmt.Errorf("%s: %d %s", url, code, body)
			}
			return nil
		})
	}
	code, body := get("http://" + cfg.MetricsAddr + "/metrics")
	if code != http.StatusOK {
		t.Errorf("metrics are answered with %d", code)
	}
	for _, want := range []string{"alioth_operator_leader 1", "alioth_operator_pod_assignments_total", "controller_runtime_reconcile_total"} {
		if !strings.Contains(body, want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
}

func TestMetrics_BeyondLoopback_Authenticated(t *testing.T) {
	r := newRig(t)
	m, err := newMetrics(&state{})
	if err != nil {
		t.Fatal(err)
	}
	cfg := testConfig()
	cfg.MetricsAddr = "0.0.0.0:9474"
	if _, _, err := metricsHandler(cfg, r.config, m, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("without a guard, metrics are served to everybody")
	}
	cfg.Guard = guard.Reviews{}
	handler, secure, err := metricsHandler(cfg, r.config, m, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if secure == nil {
		t.Fatal("served without TLS")
	}
	answer := httptest.NewRecorder()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	handler.ServeHTTP(answer, request)
	if answer.Code != http.StatusUnauthorized {
		t.Errorf("an anonymous request is answered with %d", answer.Code)
	}
}

func TestRelease_SuccessorHasName_Conflict(t *testing.T) {
	r := newRig(t)
	pod := operatortest.Pod("blue", "a", "p", "", "")
	object := &v1alpha1.Address{
		ObjectMeta: metav1.ObjectMeta{Name: "successor.10.0.0.4"},
		Spec: v1alpha1.AddressSpec{
			VPC: "successor", Subnet: "s", IP: "10.0.0.4", MAC: "02:00:0a:00:00:04", Node: "node-1", Attachment: "eth0",
			Holder: v1alpha1.AddressHolder{Kind: v1alpha1.HolderPod, Namespace: "a", Name: "q", UID: "q"}, Set: []string{"10.0.0.4"},
		},
	}
	r.create(object)
	stale := operatortest.Address("successor", "s", "10.0.0.4", pod)
	c := &claim.Claimer{
		Client: r.Client,
		Live:   r.Client,
		Store:  operatortest.New(t, stale),
		Term:   operatortest.Term(true),
		Feed:   feed.New(nil, logr.Discard()),
		Clock:  clock.RealClock{},
	}
	if err := c.Release(context.WithoutCancel(t.Context()), stale); !apierrors.IsConflict(err) {
		t.Fatalf("got %v, want a conflict", err)
	}
	r.get(object)
}

func freeAddr(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}
