// Grafana's code editor is of no use in a picture.
export {};
