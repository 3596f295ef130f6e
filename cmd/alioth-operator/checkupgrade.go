// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/operator"
	"github.com/alioth-net/alioth/operator/downgrade"
)

// checkUpgradeCommand is the chart's hook before an upgrade or a rollback changes anything.
func checkUpgradeCommand() *cobra.Command {
	kubeconfig, namespace := os.Getenv("KUBECONFIG"), os.Getenv("POD_NAMESPACE")
	cmd := &cobra.Command{
		Use:   "check-upgrade",
		Short: "Refuse to install this release where it would lose what a newer one has written; changes nothing",
		Args:  cobra.NoArgs, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
			if err != nil {
				return fmt.Errorf("find the API server: %w; outside of a pod give --kubeconfig", err)
			}
			config.UserAgent = "alioth-check-upgrade"
			return checkUpgrade(cmd.Context(), config, namespace)
		},
	}
	cmd.Flags().
		StringVar(&kubeconfig, "kubeconfig", kubeconfig, "kubeconfig file; needed only outside of a pod (environment: KUBECONFIG)")
	cmd.Flags().StringVar(&namespace, "namespace", namespace, "namespace of the operator (environment: POD_NAMESPACE)")
	return cmd
}

func checkUpgrade(ctx context.Context, config *rest.Config, namespace string) error {
	c, err := client.New(config, client.Options{Scheme: runtime.NewScheme()})
	if err != nil {
		return fmt.Errorf("make API client: %w", err)
	}
	return errors.Join(operator.CheckState(ctx, config, namespace), downgrade.Check(ctx, c))
}
