import { defineConfig } from "eslint/config";
import tseslint from "typescript-eslint";

export default defineConfig(
  { ignores: ["dist", "node_modules", "proof"] },
  {
    files: ["**/*.ts"],
    extends: [tseslint.configs.strictTypeChecked, tseslint.configs.stylisticTypeChecked],
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      // The classic model is the one that every Grafana since 10 loads.
      "@typescript-eslint/no-deprecated": [
        "error",
        { allow: [{ from: "package", package: "@grafana/grafana-foundation-sdk", name: ["Dashboard", "DashboardBuilder"] }] },
      ],
    },
  },
);
