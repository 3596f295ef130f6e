// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store/client/kube"
)

func TestGetOnce_Refused_NeitherRepeatedNorDelayed(t *testing.T) {
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.Header().Set("Retry-After", "0")
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusTooManyRequests)
		_ = json.NewEncoder(w).Encode(apierrors.NewTooManyRequests("later", 0).Status())
	}))
	defer server.Close()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	// One request now, and the next in a day.
	c, err := kube.New(&rest.Config{Host: server.URL, QPS: 1.0 / 86400, Burst: 1}, scheme)
	if err != nil {
		t.Fatal(err)
	}
	for asked := int32(1); asked <= 3; asked++ {
		vpc := &v1alpha1.VPC{ObjectMeta: metav1.ObjectMeta{Name: "blue"}}
		if err := c.GetOnce(t.Context(), vpc); !apierrors.IsTooManyRequests(err) {
			t.Fatalf("error %v, want the refusal", err)
		}
		if got := requests.Load(); got != asked {
			t.Fatalf("%d requests for %d questions", got, asked)
		}
	}
	if err := c.GetOnce(t.Context(), &v1alpha1.VPC{}); err == nil || requests.Load() != 3 {
		t.Errorf("an object without a name is asked for: %v", err)
	}
}
