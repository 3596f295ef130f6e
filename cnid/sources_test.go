// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"log/slog"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/cnid/plan"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/reflector"
)

func TestNobodyWaitsForASourceThatWasStoppedBeforeItSynced(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := reflector.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	// Nobody listens there.
	api, err := client.NewWithWatch(&rest.Config{Host: "https://127.0.0.1:1"}, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	rows, err := store.New()
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	set := reflector.NewSet(rows, api, log)
	source, err := set.Start(t.Context(), reflector.VPCNamed("blue"))
	if err != nil {
		t.Fatal(err)
	}
	s := newSources(plan.Config{}, set, rows, nil, log)
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		s.announce(source)
	}()
	source.Stop()
	<-returned
	if source.HasSynced() {
		t.Error("the source synced with nothing")
	}
}
